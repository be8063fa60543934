// Package rotation computes the state of the rotations of a Garden's credentials: the steps that an operation of the user starts, the
// steps that a successful reconciliation completes, and which Secrets the manager of secrets must renew.
//
// Everything about a credential that users rotate is in one element of rows, and everything about a certificate authority in one element
// of Authorities. The Secrets that the rotations renew are in the rows of the components.
//
// The package is pure: it computes the next state of status.credentials.rotation, which a reconciliation writes at its start and its end.
package rotation

import (
	"fmt"
	"slices"
	"strings"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/sets"
	"k8s.io/utils/ptr"

	operatorv1alpha1 "github.com/espalier-dev/espalier/api/operator/v1alpha1"
)

// SingleStepEncryptionFrom is the minor version of Kubernetes from which on the encryption key is rotated in one step only.
const SingleStepEncryptionFrom = 34

// Facts are the observations that the start of a rotation depends on.
type Facts struct {
	// Operations are the operations that the user requests.
	Operations Operations
	// SingleStepEncryption is true if the virtual cluster has Kubernetes 1.34 (SingleStepEncryptionFrom) or later. Then the rotation of the
	// encryption key always completes by itself.
	SingleStepEncryption bool
	// WantedProvider and CurrentProvider are the encryption providers of spec and status. An empty CurrentProvider is unknown.
	WantedProvider, CurrentProvider operatorv1alpha1.EncryptionProviderType
	// StartProblem says why no rotation must start, and SeedProblem why a rotation in which Seeds take part must not start. Empty: it may.
	StartProblem, SeedProblem string
	// ClientProblem says why the rotation of the certificate authorities must not complete. Empty: it may.
	ClientProblem string
	// SkippedProof is the name of a check that the user skips. Without this check, it is not known whether clients still use the former
	// credentials. SkippedProof is empty if the user skips no such check. If it is not empty, no abort completes by itself, except the abort
	// of the rotation of the encryption key.
	SkippedProof string
	// NoAccess is true if the operator has no token for the virtual cluster, for example after a restoration of the Garden. Without a token,
	// the operator cannot write objects again.
	NoAccess bool
	// Aborts are the credentials whose rotations the user aborts, and UnknownAborts the names that the user gives and that are no credential.
	Aborts        sets.Set[Credential]
	UnknownAborts []string
	// AbortProblems say why a rotation must not be aborted, as parts of sentences. A rotation without a problem is absent.
	AbortProblems map[Credential]string
	// ClockProblem is a sentence that says why no rotation may begin or advance now: its times would be wrong. Empty: rotations may.
	ClockProblem string
	// Now is the time at which the rotation begins or advances.
	Now metav1.Time
}

// Begin returns the state at the start of a reconciliation, and one sentence for each operation and each abort that it does not carry out.
// The state is nil if there never was a rotation. If Facts have a ClockProblem, Begin does not change the state.
//
// A rotation starts only if none is going on, and completes only after it was prepared. The webhook denies other operations. Begin ignores
// them too, because without the webhook a second start would drop credentials that are still in use. For the same reason, an operation
// that is handled twice does no harm.
//
// An operation that would start a rotation has no effect at all if Facts have a StartProblem. If Facts have a SeedProblem, this holds for
// operations that would start a rotation in which Seeds take part. An operation that would complete the rotation of the certificate
// authorities has no effect if Facts have a ClientProblem.
//
// If the user aborts a rotation, Begin replaces the rotation by another rotation before the operations have an effect. Then an operation
// does not start a rotation of the same credential. An abort that is prepared completes, unless Facts have a SkippedProof, which does not
// matter for the encryption key, or a ClientProblem, which matters only for the certificate authorities.
func Begin(current *operatorv1alpha1.CredentialsRotation, f Facts) (next *operatorv1alpha1.CredentialsRotation, refused []string) {
	next = current.DeepCopy()
	if next == nil {
		next = &operatorv1alpha1.CredentialsRotation{}
	}
	if f.ClockProblem != "" {
		for _, each := range sets.List(f.Operations.Difference(sets.New(operatorv1alpha1.OperationReconcile))) {
			refused = append(refused, refusal(each, strings.TrimSuffix(f.ClockProblem, ".")))
		}
		for _, each := range sets.List(f.Aborts) {
			refused = append(refused, rowOf(each).notAborted(strings.TrimSuffix(f.ClockProblem, ".")))
		}
		for _, each := range f.UnknownAborts {
			refused = append(refused, unknownAbort(each))
		}
		return current.DeepCopy(), refused
	}
	all, ofSeeds := Starts(current, f.Operations)
	refuse := func(forbidden Operations, problem string) {
		if problem == "" {
			return
		}
		for _, each := range sets.List(forbidden.Intersection(f.Operations)) {
			refused = append(refused, refusal(each, problem))
		}
		f.Operations = f.Operations.Difference(forbidden)
	}
	refuse(all, f.StartProblem)
	refuse(ofSeeds, f.SeedProblem)
	refuse(CompletesAuthorities(current, f.Operations), f.ClientProblem)
	for _, each := range f.UnknownAborts {
		refused = append(refused, unknownAbort(each))
	}
	if f.Aborts.Has(Observability) {
		reason := rowOf(Observability).abortRotation(&operatorv1alpha1.Rotation{}, current, f)
		refused = append(refused, reason)
	}
	for i := range rows {
		r := &rows[i]
		if r.field == nil {
			continue
		}
		at := r.field(next)
		rotation := ptr.Deref(*at, operatorv1alpha1.Rotation{})
		refused = append(refused, r.begin(&rotation, r.step(f.Operations), current, f)...)
		if rotation != (operatorv1alpha1.Rotation{}) {
			*at = &rotation
		}
	}
	refused = append(refused, beginEncryption(next, current, f)...)
	beginObservability(next, f)
	if *next == (operatorv1alpha1.CredentialsRotation{}) {
		return nil, refused
	}
	return next, refused
}

// refusal says that an operation has no effect.
func refusal(operation operatorv1alpha1.Operation, reason string) string {
	return fmt.Sprintf("The operation %s is refused: %s.", operation, reason)
}

// Starts returns the operations that would start a rotation, and those of them that would start a rotation in which Seeds take part. It
// leaves out an operation that was already handled in an earlier attempt.
func Starts(current *operatorv1alpha1.CredentialsRotation, operations Operations) (all, ofSeeds Operations) {
	all, ofSeeds = Operations{}, Operations{}
	for i := range rows {
		r := &rows[i]
		if !starts(ptr.Deref(r.in(current), operatorv1alpha1.Rotation{}).Phase) {
			continue
		}
		found := operations.Intersection(sets.New(r.start, r.whole, operatorv1alpha1.OperationRotateCredentialsStart))
		all = all.Union(found)
		if r.needsSeeds {
			ofSeeds = ofSeeds.Union(found)
		}
	}
	return all, ofSeeds
}

// CompletesAuthorities returns the operations that would complete the rotation of the certificate authorities: from then on, clients that
// trust only the former authorities are cut off. An operation that was already handled in an earlier attempt is not among them.
func CompletesAuthorities(current *operatorv1alpha1.CredentialsRotation, operations Operations) Operations {
	r := rowOf(CertificateAuthorities)
	if ptr.Deref(r.in(current), operatorv1alpha1.Rotation{}).Phase != operatorv1alpha1.RotationPrepared {
		return Operations{}
	}
	return operations.Intersection(sets.New(r.complete, operatorv1alpha1.OperationRotateCredentialsComplete))
}

// starts reports whether a rotation in a phase can start.
func starts(phase operatorv1alpha1.RotationPhase) bool {
	return phase == "" || phase == operatorv1alpha1.RotationCompleted
}

// begin aborts a rotation of the credential, takes a step of it, or lets an abort complete. It returns why it does not.
func (r *row) begin(
	rotation *operatorv1alpha1.Rotation, step Step, current *operatorv1alpha1.CredentialsRotation, f Facts,
) (refused []string) {
	var reasons []string
	if f.Aborts.Has(r.credential) {
		reasons = append(reasons, r.abortRotation(rotation, current, f))
		if step == Start {
			step = ""
			reasons = append(reasons, fmt.Sprintf("The rotation of %s does not start, because the annotation %s aborts it.",
				r.noun, operatorv1alpha1.AnnotationAbortRotation))
		}
	}
	reasons = append(reasons, r.advance(rotation, step, f.Now), r.endAbort(rotation, f))
	return slices.DeleteFunc(reasons, func(reason string) bool { return reason == "" })
}

// advance changes a rotation of the credential, or returns why it does not.
func (r *row) advance(rotation *operatorv1alpha1.Rotation, step Step, now metav1.Time) (refusal string) {
	switch step {
	case Start:
		switch rotation.Phase {
		case "", operatorv1alpha1.RotationCompleted:
		case operatorv1alpha1.RotationPreparing: // the operation is handled a second time
			return ""
		default:
			return fmt.Sprintf("The rotation of %s does not start, because the last one is in phase %s.", r.noun, rotation.Phase)
		}
		rotation.Phase = operatorv1alpha1.RotationPreparing
		rotation.LastInitiationTime, rotation.LastInitiationFinishedTime, rotation.LastCompletionTriggeredTime = &now, nil, nil
		rotation.AbortedInitiationTime = nil
	case Complete:
		switch rotation.Phase {
		case operatorv1alpha1.RotationPrepared:
		case operatorv1alpha1.RotationCompleting:
			return ""
		case "":
			return fmt.Sprintf("The rotation of %s does not complete, because there is none.", r.noun)
		default:
			return fmt.Sprintf("The rotation of %s does not complete, because it is in phase %s.", r.noun, rotation.Phase)
		}
		rotation.Phase, rotation.LastCompletionTriggeredTime = operatorv1alpha1.RotationCompleting, &now
	}
	return ""
}

// beginEncryption changes the state of the encryption key. The rotation of this key may complete by itself, and also starts when the
// provider changes. If the rotation would complete and Facts have NoAccess, its phase is Prepared again, and it completes by itself later.
// beginEncryption returns why operations and an abort have no effect.
func beginEncryption(next, current *operatorv1alpha1.CredentialsRotation, f Facts) (refused []string) {
	r := rowOf(ETCDEncryptionKey)
	rotation := ptr.Deref(next.ETCDEncryptionKey, operatorv1alpha1.ETCDEncryptionKeyRotation{})
	step, completesItself := r.encryptionStep(f)
	before := rotation.Phase
	refused = r.begin(&rotation.Rotation, step, current, f)
	if step == Start && starts(before) && !starts(rotation.Phase) {
		rotation.AutoCompleteAfterPrepared = &completesItself
	}
	switch rotation.Phase {
	case operatorv1alpha1.RotationCompleting:
		if f.NoAccess { // the API servers need both keys until the operator has seen that nothing needs the old one
			rotation.Phase, rotation.LastCompletionTriggeredTime = operatorv1alpha1.RotationPrepared, nil
			rotation.AutoCompleteAfterPrepared = ptr.To(true)
		}
	case operatorv1alpha1.RotationPrepared:
		if !f.NoAccess && (ptr.Deref(rotation.AutoCompleteAfterPrepared, false) || f.SingleStepEncryption) {
			r.advance(&rotation.Rotation, Complete, f.Now)
		}
	case "", operatorv1alpha1.RotationCompleted:
		if f.CurrentProvider != "" && f.CurrentProvider != f.WantedProvider {
			r.advance(&rotation.Rotation, Start, f.Now)
			rotation.AutoCompleteAfterPrepared = ptr.To(true)
		}
	default:
	}
	next.ETCDEncryptionKey = nil
	if rotation != (operatorv1alpha1.ETCDEncryptionKeyRotation{}) {
		next.ETCDEncryptionKey = &rotation
	}
	return refused
}

// beginObservability records the start of a rotation of the passwords for observability, unless one is going on.
func beginObservability(next *operatorv1alpha1.CredentialsRotation, f Facts) {
	if rowOf(Observability).step(f.Operations) != Start || isGoingOn(next.Observability) {
		return
	}
	rotation := ptr.Deref(next.Observability, operatorv1alpha1.ObservabilityRotation{})
	rotation.LastInitiationTime = &f.Now
	if rotation.LastCompletionTime != nil && !rotation.LastCompletionTime.Before(&f.Now) {
		rotation.LastCompletionTime = nil // the status has whole seconds
	}
	next.Observability = &rotation
}

// isGoingOn reports whether a rotation of the passwords for observability was started, and has not completed.
func isGoingOn(r *operatorv1alpha1.ObservabilityRotation) bool {
	return r != nil && r.LastInitiationTime != nil &&
		(r.LastCompletionTime == nil || r.LastCompletionTime.Before(r.LastInitiationTime))
}

// encryptionStep returns the step that operations ask for, and whether a rotation that starts completes by itself.
func (r *row) encryptionStep(f Facts) (step Step, completesItself bool) {
	switch o := f.Operations; {
	case o.Has(operatorv1alpha1.OperationRotateCredentialsStart):
		return Start, f.SingleStepEncryption
	case o.Has(r.whole):
		return Start, true
	case o.Has(r.start):
		return Start, false
	case o.Has(r.complete), o.Has(operatorv1alpha1.OperationRotateCredentialsComplete) && !f.SingleStepEncryption:
		return Complete, false
	}
	return "", false
}

// End returns the state after a successful reconciliation. The state is nil if there never was a rotation. Again is true if the next
// reconciliation must follow at once, because that reconciliation completes a rotation, or says why an abort does not complete.
func End(current *operatorv1alpha1.CredentialsRotation, now metav1.Time) (next *operatorv1alpha1.CredentialsRotation, again bool) {
	if current == nil {
		return nil, false
	}
	next = current.DeepCopy()
	for i := range rows {
		if rotation := rows[i].in(next); rotation != nil && finish(rotation, now) {
			again = again || isAborting(rotation)
		}
	}
	if isGoingOn(next.Observability) {
		next.Observability.LastCompletionTime = &now
	}
	if key := next.ETCDEncryptionKey; key != nil {
		again = again || key.Phase == operatorv1alpha1.RotationPrepared && ptr.Deref(key.AutoCompleteAfterPrepared, false)
		if key.Phase == operatorv1alpha1.RotationCompleted {
			key.AutoCompleteAfterPrepared = nil
		}
	}
	return next, again
}

// finish ends the phase of a rotation, and reports whether the rotation is prepared now.
func finish(rotation *operatorv1alpha1.Rotation, now metav1.Time) (prepared bool) {
	switch rotation.Phase {
	case operatorv1alpha1.RotationPreparing:
		rotation.Phase, rotation.LastInitiationFinishedTime = operatorv1alpha1.RotationPrepared, &now
		return true
	case operatorv1alpha1.RotationCompleting:
		rotation.Phase, rotation.LastCompletionTime = operatorv1alpha1.RotationCompleted, &now
		rotation.LastInitiationFinishedTime, rotation.LastCompletionTriggeredTime = nil, nil
	default:
	}
	return false
}
