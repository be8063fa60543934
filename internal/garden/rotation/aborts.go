package rotation

import (
	"fmt"
	"slices"
	"strings"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/sets"
	"k8s.io/utils/ptr"

	operatorv1alpha1 "github.com/espalier-dev/espalier/api/operator/v1alpha1"
)

// A rotation that a user aborts is not undone. Instead, a second rotation replaces the aborted rotation, and leads back. The new
// credential of the second rotation has the content of the credential from before the aborted rotation. The credential of the aborted
// rotation becomes the former credential of the second rotation. So each rule about rotations holds for an abort, too: both credentials
// are trusted until each consumer has shown that it uses the right credential, the aborted credential is dropped like each former
// credential, and a later rotation always has the later time.

// AbortNames returns the values of the annotation that aborts rotations, sorted.
func AbortNames() []string {
	var names []string
	for i := range rows {
		if rows[i].hasPhases() {
			names = append(names, rows[i].abort)
		}
	}
	slices.Sort(names)
	return names
}

// ParseAborts reads the value of the annotation that aborts rotations. Spaces around names, their order and repetitions do not matter.
// Unknown contains the values that are not names of credentials, in the order of the annotation.
func ParseAborts(annotation string) (aborts sets.Set[Credential], unknown []string) {
	aborts = sets.Set[Credential]{}
	for name := range strings.SplitSeq(annotation, ",") {
		name = strings.TrimSpace(name)
		index := slices.IndexFunc(rows, func(each row) bool { return each.abort == name })
		switch {
		case index >= 0:
			aborts.Insert(rows[index].credential)
		case name != "" && !slices.Contains(unknown, name):
			unknown = append(unknown, name)
		}
	}
	return aborts, unknown
}

// AbortProblem returns, as a part of a sentence, why the state of a rotation does not allow an abort, or "". It allows the abort of a
// rotation that is already being aborted, which changes nothing. In phase Completing, it allows no abort.
func AbortProblem(current *operatorv1alpha1.CredentialsRotation, credential Credential, singleStepEncryption bool) string {
	r := rowOf(credential)
	switch rotation := ptr.Deref(r.in(current), operatorv1alpha1.Rotation{}); {
	case !r.hasPhases():
		return "it has only one step"
	case starts(rotation.Phase):
		return "none is going on"
	case rotation.Phase == operatorv1alpha1.RotationCompleting:
		return "it is in phase Completing, so that the former credential is not trusted everywhere any more; complete it, and rotate again"
	case rotation.AbortedInitiationTime == nil && r.completesItself(current, singleStepEncryption, ""):
		return "it completes by itself; wait until it has completed, and rotate again"
	}
	return ""
}

// Aborts returns the credentials whose rotations are aborted now, with the times at which these rotations began. It leaves out rotations
// that must not be aborted, and rotations whose abort was already handled in an earlier attempt.
func Aborts(
	current *operatorv1alpha1.CredentialsRotation, asked sets.Set[Credential], singleStepEncryption bool,
) map[Credential]time.Time {
	began := map[Credential]time.Time{}
	for credential := range asked {
		if AbortProblem(current, credential, singleStepEncryption) != "" {
			continue
		}
		if rotation := rowOf(credential).in(current); rotation.AbortedInitiationTime == nil {
			began[credential] = ptr.Deref(rotation.LastInitiationTime, metav1.Time{}).Time
		}
	}
	return began
}

// Aborting returns the credentials whose rotations lead back to the former credential, and are not completed.
func Aborting(g *operatorv1alpha1.Garden) sets.Set[Credential] {
	aborting := sets.New[Credential]()
	if g.Status.Credentials == nil {
		return aborting
	}
	for i := range rows {
		if isAborting(rows[i].in(g.Status.Credentials.Rotation)) {
			aborting.Insert(rows[i].credential)
		}
	}
	return aborting
}

// AwaitsEnd reports whether the abort of the rotation of a credential is prepared. A prepared abort completes with the next
// reconciliation, unless Facts contain a reason against it.
func AwaitsEnd(current *operatorv1alpha1.CredentialsRotation, credential Credential) bool {
	rotation := rowOf(credential).in(current)
	return isAborting(rotation) && rotation.Phase == operatorv1alpha1.RotationPrepared
}

func isAborting(rotation *operatorv1alpha1.Rotation) bool {
	return rotation != nil && rotation.AbortedInitiationTime != nil && rotation.Phase != operatorv1alpha1.RotationCompleted
}

// Aborted returns the times at which the aborted rotations began, by the logical names of the irreplaceable Secrets. It contains only
// Secrets whose rotation is being aborted.
func (s Secrets) Aborted(r *operatorv1alpha1.CredentialsRotation) map[string]time.Time {
	times := map[string]time.Time{}
	for _, each := range s {
		if rotation := rowOf(each.Credential).in(r); each.Irreplaceable && isAborting(rotation) {
			times[each.Name] = rotation.AbortedInitiationTime.Time
		}
	}
	return times
}

// abortRotation replaces a rotation of the credential by the rotation that leads back, or returns why it does not replace the rotation.
// The start of the new rotation is always at least one second after the start of the aborted rotation: the status stores whole seconds,
// and names of Secrets depend on these times.
func (r *row) abortRotation(
	rotation *operatorv1alpha1.Rotation, current *operatorv1alpha1.CredentialsRotation, f Facts,
) (refusal string) {
	problem := AbortProblem(current, r.credential, f.SingleStepEncryption)
	switch {
	case problem != "":
	case rotation.AbortedInitiationTime != nil:
		return "" // it is handled a second time
	case rotation.LastInitiationTime == nil:
		problem = "status.credentials.rotation." + string(r.credential) + " has no lastInitiationTime"
	case r.credential == ETCDEncryptionKey && f.CurrentProvider != "" && f.CurrentProvider != f.WantedProvider:
		problem = fmt.Sprintf("it changes the provider from %s to %s; complete it", f.CurrentProvider, f.WantedProvider)
	default:
		problem = f.AbortProblems[r.credential]
	}
	if problem != "" {
		return r.notAborted(problem)
	}
	began := f.Now
	if !began.After(rotation.LastInitiationTime.Time) {
		began = metav1.NewTime(rotation.LastInitiationTime.Add(time.Second))
	}
	*rotation = operatorv1alpha1.Rotation{
		Phase: operatorv1alpha1.RotationPreparing, LastInitiationTime: &began, LastCompletionTime: rotation.LastCompletionTime,
		AbortedInitiationTime: rotation.LastInitiationTime,
	}
	return ""
}

func (r *row) notAborted(problem string) string {
	return fmt.Sprintf("The rotation of %s is not aborted: %s.", r.noun, problem)
}

func unknownAbort(name string) string {
	return fmt.Sprintf("No rotation of %q is aborted, because that is not one of %s.", name, strings.Join(AbortNames(), ", "))
}

// needsProof reports whether an abort does not complete by itself because the user skips a check. The parameter skipped is the name of the
// check, or "" if the user skips none. An abort of the encryption key needs no proof: all objects have been written again.
func (r *row) needsProof(skipped string) bool {
	return skipped != "" && r.credential != ETCDEncryptionKey
}

// endAbort completes a rotation that leads back to the former credential, if the phase of the rotation is Prepared. If the rotation must
// not complete yet, endAbort returns the reason.
func (r *row) endAbort(rotation *operatorv1alpha1.Rotation, f Facts) (refusal string) {
	if !isAborting(rotation) || rotation.Phase != operatorv1alpha1.RotationPrepared {
		return ""
	}
	if r.needsProof(f.SkippedProof) {
		return fmt.Sprintf("The abort of the rotation of %s does not complete by itself, because the annotation %s of the Garden skips the "+
			"check %s: when no client uses the aborted credential any more, request the operation %s.",
			r.noun, operatorv1alpha1.AnnotationSkippedChecks, f.SkippedProof, r.complete)
	}
	if r.credential == CertificateAuthorities && f.ClientProblem != "" {
		return fmt.Sprintf("The abort of the rotation of %s does not complete: %s.", r.noun, f.ClientProblem)
	}
	return r.advance(rotation, Complete, f.Now)
}
