package invalidator

import (
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	resourcesv1alpha1 "github.com/espalier-dev/espalier/api/resources/v1alpha1"
	"github.com/espalier-dev/espalier/internal/conflict"
)

// plan describes which labels of a Secret to change.
type plan struct {
	// purpose sets the purpose label, so that the webhook is called for the Secret.
	purpose bool
	// restore removes the mark, so that the webhook allows a new token.
	restore bool
	// invalidate sets the mark, unless a Pod mounts the Secret.
	invalidate bool
}

// planFor plans the changes of a static token Secret, given the ServiceAccount whose token it contains.
func planFor(secret *metav1.PartialObjectMetadata, account *corev1.ServiceAccount) plan {
	_, hasPurpose := secret.Labels[resourcesv1alpha1.ResourcePurpose]
	_, marked := secret.Labels[resourcesv1alpha1.StaticTokenConsider]
	worthless := optedOut(account)
	return plan{purpose: !hasPurpose, restore: marked && !worthless, invalidate: !marked && worthless}
}

// optedOut reports whether the static tokens of a ServiceAccount are not needed: the ServiceAccount disables automounting, and has no label
// that exempts it from invalidation.
func optedOut(account *corev1.ServiceAccount) bool {
	_, skip := account.Labels[resourcesv1alpha1.StaticTokenSkip]
	return !skip && account.AutomountServiceAccountToken != nil && !*account.AutomountServiceAccountToken
}

// empty reports whether no label must change.
func (p plan) empty() bool { return p == plan{} }

// applyTo changes the labels of a Secret.
func (p plan) applyTo(secret *metav1.PartialObjectMetadata) {
	if p.purpose {
		metav1.SetMetaDataLabel(&secret.ObjectMeta, resourcesv1alpha1.ResourcePurpose, resourcesv1alpha1.PurposeTokenInvalidator)
	}
	if p.restore {
		delete(secret.Labels, resourcesv1alpha1.StaticTokenConsider)
	}
	if p.invalidate {
		metav1.SetMetaDataLabel(&secret.ObjectMeta, resourcesv1alpha1.StaticTokenConsider, "true")
	}
}

// patch returns the changed Secret, and the patch. The API server refuses the patch if the Secret has another version than the given one.
func (p plan) patch(secret *metav1.PartialObjectMetadata) (changed *metav1.PartialObjectMetadata, patch client.Patch) {
	changed = secret.DeepCopy()
	p.applyTo(changed)
	return changed, conflict.MergeFrom(secret)
}

// mounts reports whether a Pod has a volume of the given Secret. Projected volumes and environment variables do not count. The phase of the
// Pod does not matter.
func mounts(pod *corev1.Pod, secret string) bool {
	for i := range pod.Spec.Volumes {
		if from := pod.Spec.Volumes[i].Secret; from != nil && from.SecretName == secret {
			return true
		}
	}
	return false
}
