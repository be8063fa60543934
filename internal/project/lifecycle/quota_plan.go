package lifecycle

import (
	"fmt"
	"slices"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"

	"github.com/espalier-dev/espalier/internal/config"
)

// quotaName is the name of the ResourceQuota in every project's namespace.
const quotaName = "gardener"

// selectQuota returns the quota of the first entry whose selector matches the labels of a Project; nil if none does. An empty or missing
// selector matches every Project.
func selectQuota(entries []config.ProjectQuota, project map[string]string) (*corev1.ResourceQuota, error) {
	for i, each := range entries {
		selector := labels.Everything()
		if each.ProjectSelector != nil {
			var err error
			if selector, err = metav1.LabelSelectorAsSelector(each.ProjectSelector); err != nil {
				return nil, fmt.Errorf("controllers.project.quotas[%d].projectSelector: %w", i, err)
			}
		}
		if selector.Matches(labels.Set(project)) {
			return each.Config, nil
		}
	}
	return nil, nil
}

// desiredQuota returns the ResourceQuota of a namespace. existing is the current ResourceQuota, nil if there is none; it is not changed.
// The limited resources are exactly the resources in the configuration. A resource that the current quota limits keeps its value, because
// operators change the values by hand. Labels, annotations and owners that other clients have added stay; scopes of the configuration are
// ignored.
func desiredQuota(namespace string, existing, configured *corev1.ResourceQuota, owner metav1.OwnerReference) *corev1.ResourceQuota {
	want := &corev1.ResourceQuota{}
	if existing != nil {
		want = existing.DeepCopy()
	}
	want.Namespace, want.Name = namespace, quotaName
	want.Labels = labels.Merge(want.Labels, configured.Labels)
	want.Annotations = labels.Merge(want.Annotations, configured.Annotations)
	want.OwnerReferences = withOwner(want.OwnerReferences, owner)
	hard := corev1.ResourceList{}
	for resource, value := range configured.Spec.Hard {
		if current, ok := want.Spec.Hard[resource]; ok {
			value = current
		}
		hard[resource] = value.DeepCopy()
	}
	want.Spec.Hard = hard
	return want
}

// withOwner replaces the owner with the same UID, or appends the owner.
func withOwner(owners []metav1.OwnerReference, owner metav1.OwnerReference) []metav1.OwnerReference {
	i := slices.IndexFunc(owners, func(o metav1.OwnerReference) bool { return o.UID == owner.UID })
	if i < 0 {
		return append(owners, owner)
	}
	owners[i] = owner
	return owners
}

// trimQuota is the transform for caches of ResourceQuotas: it removes fields that desiredQuota neither reads nor changes.
func trimQuota(object any) (any, error) {
	if q, ok := object.(*corev1.ResourceQuota); ok {
		q.ManagedFields, q.Status = nil, corev1.ResourceQuotaStatus{}
		q.Spec.Scopes, q.Spec.ScopeSelector = nil, nil
	}
	return object, nil
}
