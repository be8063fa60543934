package rotation

import (
	"cmp"
	"fmt"
	"maps"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/sets"

	operatorv1alpha1 "github.com/espalier-dev/espalier/api/operator/v1alpha1"
)

// Logical names of the Secrets with probes: credentials without rights that the former generation has signed, for the proof that servers
// refuse them.
const (
	ClientProbe = "rotation-probe-client"
	TokenProbe  = "rotation-probe-token"
)

// Secret is a Secret that a rotation renews.
type Secret struct {
	// Name is its logical name.
	Name string
	// Credential is the credential whose rotation renews the Secret.
	Credential Credential
	// Irreplaceable is true for a key or a certificate authority that only a rotation replaces, and that outlives a Garden.
	Irreplaceable bool
}

// Secrets are all Secrets that rotations renew.
type Secrets []Secret

// Kept returns the logical names of the keys and certificate authorities that outlive a Garden. Without them, the etcd volumes and backups
// of the Garden cannot be read, and its clients and Seeds cannot connect to a new Garden with the same data.
func (s Secrets) Kept() []string {
	var names []string
	for _, each := range s {
		if each.Irreplaceable {
			names = append(names, each.Name)
		}
	}
	return names
}

// Times returns when the last rotation of each Secret was started, by the logical name of the Secret.
func (s Secrets) Times(r *operatorv1alpha1.CredentialsRotation) map[string]time.Time {
	return s.timesIf(r, func(*operatorv1alpha1.Rotation) bool { return true })
}

// CompletingTimes returns the starts of the rotations that are completing, by the logical names of the Secrets that they renew.
func (s Secrets) CompletingTimes(r *operatorv1alpha1.CredentialsRotation) map[string]time.Time {
	return s.timesIf(r, func(rotation *operatorv1alpha1.Rotation) bool {
		return rotation.Phase == operatorv1alpha1.RotationCompleting
	})
}

// timesIf returns the starts of the last rotations that satisfy a condition, by the logical names of the Secrets that they renew.
func (s Secrets) timesIf(
	r *operatorv1alpha1.CredentialsRotation, condition func(*operatorv1alpha1.Rotation) bool,
) map[string]time.Time {
	times := map[string]time.Time{}
	for _, each := range s {
		rotation := rowOf(each.Credential).in(r)
		if rotation != nil && rotation.LastInitiationTime != nil && condition(rotation) {
			times[each.Name] = rotation.LastInitiationTime.Time
		}
	}
	return times
}

// KeyStatus is the part of the status about the keys of a logical name.
type KeyStatus struct {
	// Preparing is true while a rotation is being prepared.
	Preparing bool
	// Generation is a sentence about the last rotation, without a period. Empty: there was none before the one that is being prepared.
	Generation string
}

// Irreplaceable returns the status of each key and certificate authority that only a rotation replaces, by its logical name.
// If one is lost, data cannot be read, or clients and tokens are refused.
func (s Secrets) Irreplaceable(r *operatorv1alpha1.CredentialsRotation) map[string]KeyStatus {
	all := map[string]KeyStatus{}
	for _, each := range s {
		if each.Irreplaceable {
			all[each.Name] = rowOf(each.Credential).keyStatus(r)
		}
	}
	return all
}

func (r *row) keyStatus(all *operatorv1alpha1.CredentialsRotation) KeyStatus {
	known := KeyStatus{}
	rotation := r.in(all)
	if rotation == nil {
		return known
	}
	if isAborting(rotation) { // a new key would not be the former one
		known.Generation = fmt.Sprintf("the abort of the rotation that began at %s needs the former one, which is missing, too",
			rotation.AbortedInitiationTime.UTC().Format(time.RFC3339))
		return known
	}
	known.Preparing = rotation.Phase == operatorv1alpha1.RotationPreparing
	if rotation.LastInitiationTime != nil && (!known.Preparing || rotation.LastCompletionTime != nil) {
		known.Generation = fmt.Sprintf("status.credentials.rotation.%s of the Garden has a rotation that began at %s",
			r.credential, rotation.LastInitiationTime.UTC().Format(time.RFC3339))
	}
	return known
}

// Phases are the phases of the rotations of a Garden. Credentials that were never rotated are absent.
type Phases map[Credential]operatorv1alpha1.RotationPhase

// PhasesOf returns the phases in the status of a Garden.
func PhasesOf(g *operatorv1alpha1.Garden) Phases {
	phases := Phases{}
	if g.Status.Credentials == nil {
		return phases
	}
	for i := range rows {
		if rotation := rows[i].in(g.Status.Credentials.Rotation); rotation != nil && (rows[i].hasPhases() || rotation.Phase != "") {
			phases[rows[i].credential] = rotation.Phase
		}
	}
	return phases
}

// Completed returns the credentials of which a rotation has completed, also if another one is going on: they have a former generation.
func Completed(g *operatorv1alpha1.Garden) sets.Set[Credential] {
	completed := sets.New[Credential]()
	if g.Status.Credentials == nil {
		return completed
	}
	for i := range rows {
		if rotation := rows[i].in(g.Status.Credentials.Rotation); rotation != nil && rotation.LastCompletionTime != nil {
			completed.Insert(rows[i].credential)
		}
	}
	return completed
}

// With returns a copy of the phases in which a credential has another phase.
func (p Phases) With(credential Credential, phase operatorv1alpha1.RotationPhase) Phases {
	changed := Phases{}
	maps.Copy(changed, p)
	changed[credential] = phase
	return changed
}

// Changing reports whether a rotation is in phase Preparing or Completing. These phases end only when no Pod uses the former credentials.
// The passwords for observability do not count, because no Pod of the control plane uses them.
func (p Phases) Changing() bool {
	for credential, phase := range p {
		if credential == Observability {
			continue
		}
		if phase == operatorv1alpha1.RotationPreparing || phase == operatorv1alpha1.RotationCompleting {
			return true
		}
	}
	return false
}

// PhaseSince is the phase of a rotation, and the time at which the rotation entered it. Aborts is true if the rotation leads back to the
// former credential, and is not completed.
type PhaseSince struct {
	Phase operatorv1alpha1.RotationPhase
	time.Time
	Aborts bool
}

// Since returns the phases in the status of a Garden, and when they began. If the status does not contain the begin of a phase, as in an
// early version of Gardener's operator, the start of the rotation counts instead. If this time is missing too, the result does not contain
// the phase.
func Since(g *operatorv1alpha1.Garden) map[Credential]PhaseSince {
	all := map[Credential]PhaseSince{}
	for credential, phase := range PhasesOf(g) {
		rotation := rowOf(credential).in(g.Status.Credentials.Rotation)
		began := map[operatorv1alpha1.RotationPhase]*metav1.Time{
			operatorv1alpha1.RotationPrepared:   rotation.LastInitiationFinishedTime,
			operatorv1alpha1.RotationCompleting: rotation.LastCompletionTriggeredTime,
			operatorv1alpha1.RotationCompleted:  rotation.LastCompletionTime,
		}[phase]
		if began = cmp.Or(began, rotation.LastInitiationTime); began != nil {
			all[credential] = PhaseSince{phase, began.Time, isAborting(rotation)}
		}
	}
	return all
}
