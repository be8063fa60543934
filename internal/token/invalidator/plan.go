package invalidator

import (
	"encoding/json"
	"fmt"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	resourcesv1alpha1 "github.com/espalier-dev/espalier/api/resources/v1alpha1"
)

// plan is what is to become of the labels of a Secret.
type plan struct {
	// purpose is to be set, so that the webhook sees the Secret.
	purpose bool
	// restore removes the mark, so that the webhook lets a new token be made.
	restore bool
	// invalidate sets the mark, unless a Pod mounts the Secret.
	invalidate bool
}

// planFor says what to do with a static token Secret, given the ServiceAccount that it is for.
func planFor(secret *metav1.PartialObjectMetadata, account *corev1.ServiceAccount) plan {
	_, hasPurpose := secret.Labels[resourcesv1alpha1.ResourcePurpose]
	_, marked := secret.Labels[resourcesv1alpha1.StaticTokenConsider]
	worthless := optedOut(account)
	return plan{purpose: !hasPurpose, restore: marked && !worthless, invalidate: !marked && worthless}
}

// optedOut tells whether nobody needs static tokens of a ServiceAccount: it says so, and does not ask to be spared.
func optedOut(account *corev1.ServiceAccount) bool {
	_, skip := account.Labels[resourcesv1alpha1.StaticTokenSkip]
	return !skip && account.AutomountServiceAccountToken != nil && !*account.AutomountServiceAccountToken
}

// empty tells whether nothing is to be written.
func (p plan) empty() bool { return p == plan{} }

// patch is the merge patch of a plan, for exactly that version of the Secret.
func (p plan) patch(version string) ([]byte, error) {
	labels := map[string]any{}
	if p.purpose {
		labels[resourcesv1alpha1.ResourcePurpose] = resourcesv1alpha1.PurposeTokenInvalidator
	}
	if p.restore {
		labels[resourcesv1alpha1.StaticTokenConsider] = nil
	}
	if p.invalidate {
		labels[resourcesv1alpha1.StaticTokenConsider] = "true"
	}
	patch, err := json.Marshal(map[string]any{"metadata": map[string]any{"resourceVersion": version, "labels": labels}})
	if err != nil {
		return nil, fmt.Errorf("encode patch: %w", err)
	}
	return patch, nil
}

// mounts tells whether a Pod has a volume of a Secret. Projected volumes and variables do not count, and neither does it
// count whether the Pod runs.
func mounts(pod *corev1.Pod, secret string) bool {
	for i := range pod.Spec.Volumes {
		if from := pod.Spec.Volumes[i].Secret; from != nil && from.SecretName == secret {
			return true
		}
	}
	return false
}
