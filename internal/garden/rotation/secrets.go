package rotation

import (
	"fmt"
	"maps"
	"time"

	operatorv1alpha1 "github.com/espalier-dev/espalier/api/operator/v1alpha1"
)

// Kept returns the logical names of the keys and certificate authorities that outlive a Garden: without them, its etcd volumes and backups
// cannot be read, and its clients and Seeds cannot connect to a new Garden with its data.
func Kept() []string {
	var names []string
	for i := range rows {
		names = append(names, rows[i].keys...)
	}
	return names
}

// Times returns when the last rotation of each Secret was started, by the logical name of the Secret.
func Times(r *operatorv1alpha1.CredentialsRotation) map[string]time.Time {
	return timesIf(r, func(*operatorv1alpha1.Rotation) bool { return true })
}

// CompletingTimes returns the starts of the rotations that are completing, by the logical names of the Secrets that they renew.
func CompletingTimes(r *operatorv1alpha1.CredentialsRotation) map[string]time.Time {
	return timesIf(r, func(rotation *operatorv1alpha1.Rotation) bool {
		return rotation.Phase == operatorv1alpha1.RotationCompleting
	})
}

// timesIf returns the starts of the last rotations that satisfy a condition, by the logical names of the Secrets that they renew.
func timesIf(r *operatorv1alpha1.CredentialsRotation, condition func(*operatorv1alpha1.Rotation) bool) map[string]time.Time {
	times := map[string]time.Time{}
	for i := range rows {
		rotation := rows[i].in(r)
		if rotation == nil || rotation.LastInitiationTime == nil || !condition(rotation) {
			continue
		}
		for _, name := range rows[i].renewed() {
			times[name] = rotation.LastInitiationTime.Time
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
func Irreplaceable(r *operatorv1alpha1.CredentialsRotation) map[string]KeyStatus {
	all := map[string]KeyStatus{}
	for i := range rows {
		known := KeyStatus{}
		if rotation := rows[i].in(r); rotation != nil {
			known.Preparing = rotation.Phase == operatorv1alpha1.RotationPreparing
			if rotation.LastInitiationTime != nil && (!known.Preparing || rotation.LastCompletionTime != nil) {
				known.Generation = fmt.Sprintf("status.credentials.rotation.%s of the Garden has a rotation that began at %s",
					rows[i].credential, rotation.LastInitiationTime.UTC().Format(time.RFC3339))
			}
		}
		for _, name := range rows[i].keys {
			all[name] = known
		}
	}
	return all
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
		if rotation := rows[i].in(g.Status.Credentials.Rotation); rotation != nil && rows[i].hasPhases() {
			phases[rows[i].credential] = rotation.Phase
		}
	}
	return phases
}

// With returns a copy of the phases in which a credential has another phase.
func (p Phases) With(credential Credential, phase operatorv1alpha1.RotationPhase) Phases {
	changed := Phases{}
	maps.Copy(changed, p)
	changed[credential] = phase
	return changed
}

// Changing reports whether a rotation is in phase Preparing or Completing. These phases only end when no Pod has the former credentials.
func (p Phases) Changing() bool {
	for _, phase := range p {
		if phase == operatorv1alpha1.RotationPreparing || phase == operatorv1alpha1.RotationCompleting {
			return true
		}
	}
	return false
}
