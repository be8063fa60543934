// Package rotation computes the state of the rotations of a Garden's credentials: what an operation of the user starts, what a
// successful reconciliation completes, and which Secrets the manager of secrets must renew.
//
// It is pure: it computes the next state of status.credentials.rotation, which a reconciliation writes at its start and its end.
package rotation

import (
	"fmt"
	"strings"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/sets"
	"k8s.io/utils/ptr"

	operatorv1alpha1 "github.com/espalier-dev/espalier/api/operator/v1alpha1"
)

// SingleStepEncryptionFrom is the minor version of Kubernetes from which on the encryption key is rotated in one step only.
const SingleStepEncryptionFrom = 34

// Facts are what the start of a rotation depends on.
type Facts struct {
	// Operations are what the user asks for.
	Operations Operations
	// SingleStepEncryption is true if the virtual cluster has Kubernetes 1.34 (SingleStepEncryptionFrom) or later: the rotation of the
	// encryption key always completes by itself.
	SingleStepEncryption bool
	// WantedProvider and CurrentProvider are the encryption providers of spec and status. An empty CurrentProvider is unknown.
	WantedProvider, CurrentProvider operatorv1alpha1.EncryptionProviderType
	// SeedProblem says why no rotation may start in which Seeds take part. Empty: it may.
	SeedProblem string
	// ClockProblem is a sentence that says why no rotation may begin or advance at this time, because its times would be wrong. Empty: it may.
	ClockProblem string
	// Now is the time of the reconciliation.
	Now metav1.Time
}

// Names of the credentials in sentences.
const (
	authorities         = "the certificate authorities"
	serviceAccountKey   = "the key for tokens of ServiceAccounts"
	workloadIdentityKey = "the key for tokens of workload identities"
	encryptionKey       = "the encryption key of etcd"
)

// Begin returns the state at the start of a reconciliation, and one sentence for each operation that it does not carry out. The state is
// nil if there never was a rotation.
//
// A rotation starts if none is going on, and completes after it was prepared. The webhook denies other operations. They have no effect
// here, because without the webhook a second start would drop credentials that are still in use. That also makes it harmless to handle an
// operation twice.
//
// An operation that would start a rotation in which Seeds take part has no effect at all if Facts have a SeedProblem. The operator deploys
// no observability components, so there are no credentials of them to rotate.
func Begin(current *operatorv1alpha1.CredentialsRotation, f Facts) (next *operatorv1alpha1.CredentialsRotation, refused []string) {
	next = current.DeepCopy()
	if next == nil {
		next = &operatorv1alpha1.CredentialsRotation{}
	}
	if f.ClockProblem != "" {
		for _, each := range sets.List(f.Operations) {
			if each != operatorv1alpha1.OperationReconcile {
				refused = append(refused, refusal(each, strings.TrimSuffix(f.ClockProblem, ".")))
			}
		}
		return current.DeepCopy(), refused
	}
	if f.SeedProblem != "" {
		early := StartsForSeeds(current, f.Operations)
		for _, each := range sets.List(early) {
			refused = append(refused, refusal(each, f.SeedProblem))
		}
		f.Operations = f.Operations.Difference(early)
	}
	if f.Operations.Has(operatorv1alpha1.OperationRotateObservabilityCredentials) {
		refused = append(refused, refusal(operatorv1alpha1.OperationRotateObservabilityCredentials, noObservability))
	}
	begin := func(at **operatorv1alpha1.Rotation, operations pair, credential string) {
		rotation := ptr.Deref(*at, operatorv1alpha1.Rotation{})
		if reason := advance(&rotation, operations.in(f.Operations), credential, f.Now); reason != "" {
			refused = append(refused, reason)
		}
		if rotation != (operatorv1alpha1.Rotation{}) {
			*at = &rotation
		}
	}
	begin(&next.CertificateAuthorities, authoritiesPair, authorities)
	begin(&next.ServiceAccountKey, serviceAccountPair, serviceAccountKey)
	begin(&next.WorkloadIdentityKey, workloadIdentityPair, workloadIdentityKey)

	var reason string
	if next.ETCDEncryptionKey, reason = beginEncryption(next.ETCDEncryptionKey, f); reason != "" {
		refused = append(refused, reason)
	}
	if *next == (operatorv1alpha1.CredentialsRotation{}) {
		return nil, refused
	}
	return next, refused
}

const noObservability = "the operator deploys no observability components, so they have no credentials"

// refusal says that an operation has no effect.
func refusal(operation operatorv1alpha1.Operation, reason string) string {
	return fmt.Sprintf("The operation %s is refused: %s.", operation, reason)
}

// StartsForSeeds returns the operations that would start a rotation in which Seeds take part: their gardenlets and their clients
// need the new authorities, and tokens that the new keys have signed, before the old ones are dropped. An operation that is handled a
// second time starts none.
func StartsForSeeds(current *operatorv1alpha1.CredentialsRotation, operations Operations) Operations {
	r := ptr.Deref(current, operatorv1alpha1.CredentialsRotation{})
	found := Operations{}
	for _, each := range []struct {
		operations pair
		rotation   *operatorv1alpha1.Rotation
	}{
		{authoritiesPair, r.CertificateAuthorities}, {serviceAccountPair, r.ServiceAccountKey}, {workloadIdentityPair, r.WorkloadIdentityKey},
	} {
		rotation := ptr.Deref(each.rotation, operatorv1alpha1.Rotation{})
		if starts(rotation.Phase) {
			found = found.Union(operations.Intersection(sets.New(each.operations.start, operatorv1alpha1.OperationRotateCredentialsStart)))
		}
	}
	return found
}

// starts reports whether a rotation in a phase can start.
func starts(phase operatorv1alpha1.RotationPhase) bool {
	return phase == "" || phase == operatorv1alpha1.RotationCompleted
}

// step is what an operation does with one credential.
type step int

const (
	nothing step = iota
	start
	complete
)

// pair are the operations for the two steps of a rotation.
type pair struct{ start, complete operatorv1alpha1.Operation }

var (
	authoritiesPair    = pair{operatorv1alpha1.OperationRotateCAStart, operatorv1alpha1.OperationRotateCAComplete}
	serviceAccountPair = pair{
		operatorv1alpha1.OperationRotateServiceAccountKeyStart, operatorv1alpha1.OperationRotateServiceAccountKeyComplete,
	}
	workloadIdentityPair = pair{
		operatorv1alpha1.OperationRotateWorkloadIdentityKeyStart, operatorv1alpha1.OperationRotateWorkloadIdentityKeyComplete,
	}
)

func (p pair) in(operations Operations) step {
	switch {
	case operations.HasAny(p.start, operatorv1alpha1.OperationRotateCredentialsStart):
		return start
	case operations.HasAny(p.complete, operatorv1alpha1.OperationRotateCredentialsComplete):
		return complete
	}
	return nothing
}

// advance changes a rotation, or returns why it does not.
func advance(rotation *operatorv1alpha1.Rotation, does step, credential string, now metav1.Time) (refusal string) {
	switch does {
	case start:
		switch rotation.Phase {
		case "", operatorv1alpha1.RotationCompleted:
		case operatorv1alpha1.RotationPreparing: // the operation is handled a second time
			return ""
		default:
			return fmt.Sprintf("The rotation of %s does not start, because the last one is in phase %s.", credential, rotation.Phase)
		}
		rotation.Phase = operatorv1alpha1.RotationPreparing
		rotation.LastInitiationTime, rotation.LastInitiationFinishedTime, rotation.LastCompletionTriggeredTime = &now, nil, nil
	case complete:
		switch rotation.Phase {
		case operatorv1alpha1.RotationPrepared:
		case operatorv1alpha1.RotationCompleting:
			return ""
		case "":
			return fmt.Sprintf("The rotation of %s does not complete, because there is none.", credential)
		default:
			return fmt.Sprintf("The rotation of %s does not complete, because it is in phase %s.", credential, rotation.Phase)
		}
		rotation.Phase, rotation.LastCompletionTriggeredTime = operatorv1alpha1.RotationCompleting, &now
	case nothing:
	}
	return ""
}

// beginEncryption is advance for the encryption key, whose rotation may complete by itself, and starts when the provider changes.
func beginEncryption(
	current *operatorv1alpha1.ETCDEncryptionKeyRotation, f Facts,
) (next *operatorv1alpha1.ETCDEncryptionKeyRotation, refusal string) {
	rotation := ptr.Deref(current, operatorv1alpha1.ETCDEncryptionKeyRotation{})
	does, completesItself := encryptionStep(f)
	before := rotation.Phase
	refusal = advance(&rotation.Rotation, does, encryptionKey, f.Now)
	if does == start && before != rotation.Phase {
		rotation.AutoCompleteAfterPrepared = &completesItself
	}
	switch rotation.Phase {
	case operatorv1alpha1.RotationPrepared:
		if ptr.Deref(rotation.AutoCompleteAfterPrepared, false) || f.SingleStepEncryption {
			advance(&rotation.Rotation, complete, encryptionKey, f.Now)
		}
	case "", operatorv1alpha1.RotationCompleted:
		if f.CurrentProvider != "" && f.CurrentProvider != f.WantedProvider {
			advance(&rotation.Rotation, start, encryptionKey, f.Now)
			rotation.AutoCompleteAfterPrepared = ptr.To(true)
		}
	default:
	}
	if rotation == (operatorv1alpha1.ETCDEncryptionKeyRotation{}) {
		return nil, refusal
	}
	return &rotation, refusal
}

// encryptionStep returns what the operations do with the encryption key, and whether a rotation that starts completes by itself.
func encryptionStep(f Facts) (does step, completesItself bool) {
	switch o := f.Operations; {
	case o.Has(operatorv1alpha1.OperationRotateCredentialsStart):
		return start, f.SingleStepEncryption
	case o.Has(operatorv1alpha1.OperationRotateETCDEncryptionKey):
		return start, true
	case o.Has(operatorv1alpha1.OperationRotateETCDEncryptionKeyStart):
		return start, false
	case o.Has(operatorv1alpha1.OperationRotateETCDEncryptionKeyComplete),
		o.Has(operatorv1alpha1.OperationRotateCredentialsComplete) && !f.SingleStepEncryption:
		return complete, false
	}
	return nothing, false
}

// End returns the state after a successful reconciliation. It is nil if there never was a rotation. Again is true if the next
// reconciliation must follow at once, because it completes a rotation.
func End(current *operatorv1alpha1.CredentialsRotation, now metav1.Time) (next *operatorv1alpha1.CredentialsRotation, again bool) {
	if current == nil {
		return nil, false
	}
	next = current.DeepCopy()
	for _, each := range rotations(next) {
		finish(each, now)
	}
	if key := next.ETCDEncryptionKey; key != nil {
		again = key.Phase == operatorv1alpha1.RotationPrepared && ptr.Deref(key.AutoCompleteAfterPrepared, false)
		if key.Phase == operatorv1alpha1.RotationCompleted {
			key.AutoCompleteAfterPrepared = nil
		}
	}
	return next, again
}

func finish(rotation *operatorv1alpha1.Rotation, now metav1.Time) {
	switch rotation.Phase {
	case operatorv1alpha1.RotationPreparing:
		rotation.Phase, rotation.LastInitiationFinishedTime = operatorv1alpha1.RotationPrepared, &now
	case operatorv1alpha1.RotationCompleting:
		rotation.Phase, rotation.LastCompletionTime = operatorv1alpha1.RotationCompleted, &now
		rotation.LastInitiationFinishedTime, rotation.LastCompletionTriggeredTime = nil, nil
	default:
	}
}
