package secrets

import (
	"cmp"
	"fmt"
	"maps"
	"slices"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/equality"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/ptr"
)

// Kept returns a kept Secret for each observed Secret of the logical names: a copy with the same data. It returns no copies of bundles.
// The name of a copy contains a checksum of the data, so that different data never has the same name. The argument origin is the value of
// LabelKeptFrom.
func (i *Inventory) Kept(logicalNames []string, origin string) []*corev1.Secret {
	var kept []*corev1.Secret
	for _, secret := range i.observed {
		name := secret.Labels[LabelName]
		if !i.manages(secret) || !slices.Contains(logicalNames, name) {
			continue
		}
		generation := KeptEarlier
		if secret.Name == i.current(name).Name {
			generation = KeptCurrent
		}
		kept = append(kept, KeptCopy(secret, name, origin, generation))
	}
	return kept
}

// KeptCopy returns the kept Secret for a Secret of a logical name: a copy with the same data. The arguments origin and generation are the
// values of LabelKeptFrom and LabelKeptGeneration.
func KeptCopy(secret *corev1.Secret, logicalName, origin, generation string) *corev1.Secret {
	return &corev1.Secret{
		ObjectMeta: metav1.ObjectMeta{
			Namespace: secret.Namespace, Name: "kept-" + secret.Name + "-" + dataChecksum(secret.Data)[:8],
			Labels: map[string]string{LabelKeptCredential: logicalName, LabelKeptFrom: origin, LabelKeptGeneration: generation},
		},
		Type: secret.Type, Data: maps.Clone(secret.Data), Immutable: ptr.To(true),
	}
}

// current returns the newest observed Secret of the last rotation of a logical name; if there is none, the newest one.
func (i *Inventory) current(logicalName string) *corev1.Secret {
	ofLastRotation, _ := i.newest(logicalName, "", func(secret *corev1.Secret) (bool, error) { // it never fails
		return secret.Labels[LabelLastRotation] == i.rotation[logicalName], nil
	})
	return cmp.Or(ofLastRotation, i.Newest(logicalName, ""))
}

// PlanKept returns the step that turns an existing Secret into the kept Secret of the same name. If the existing Secret was already kept
// for the same origin, PlanKept does not change it: since then, some of the Secrets from which its LabelKeptGeneration was derived may
// have been deleted. PlanKept fails if the data differs.
func PlanKept(existing, kept *corev1.Secret) (Step, error) {
	if !equality.Semantic.DeepEqual(existing.Data, kept.Data) {
		return Step{}, fmt.Errorf("secret %q exists with other data than that which is to be kept; rename or delete it", existing.Name)
	}
	step := Step{Observed: existing, Desired: existing.DeepCopy()}
	if existing.Labels[LabelKeptFrom] != kept.Labels[LabelKeptFrom] {
		for key, value := range kept.Labels {
			metav1.SetMetaDataLabel(&step.Desired.ObjectMeta, key, value)
		}
	}
	return step, nil
}
