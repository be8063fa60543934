package health

import (
	"slices"

	"k8s.io/utils/ptr"

	corev1beta1 "github.com/espalier-dev/espalier/api/core/v1beta1"
	resourcesv1alpha1 "github.com/espalier-dev/espalier/api/resources/v1alpha1"
	"github.com/espalier-dev/espalier/internal/apply/merge"
	"github.com/espalier-dev/espalier/internal/managedresource/status"
)

// due reports whether a set can be judged: the set is neither ignored nor being deleted, and has a condition ResourcesApplied that is
// neither Progressing nor False. There are two exceptions. The condition may be False for the only reason that pruning is suspended: then
// all objects are applied. It may be Progressing while a change waits for other sets and all objects of the former content are applied.
func due(mr *resourcesv1alpha1.ManagedResource) bool {
	if merge.Truthy(mr.Annotations[resourcesv1alpha1.Ignore]) || mr.DeletionTimestamp != nil {
		return false
	}
	applied := corev1beta1.GetCondition(mr.Status.Conditions, resourcesv1alpha1.ResourcesApplied)
	if applied == nil {
		return false
	}
	switch applied.Status {
	case corev1beta1.ConditionProgressing:
		return slices.Contains(applied.Codes, status.CodeContentKept)
	case corev1beta1.ConditionFalse:
		return applied.Reason == resourcesv1alpha1.ConditionPruningSuspended
	case corev1beta1.ConditionTrue, corev1beta1.ConditionUnknown:
	}
	return true
}

// mayDiffer reports whether an update of a set may change its health. The watches of its objects report changes of the objects.
func mayDiffer(before, after *resourcesv1alpha1.ManagedResource) bool {
	return ptr.Deref(before.Spec.Class, "") != ptr.Deref(after.Spec.Class, "") ||
		appliedStatus(before) != appliedStatus(after) ||
		merge.Truthy(before.Annotations[resourcesv1alpha1.Ignore]) != merge.Truthy(after.Annotations[resourcesv1alpha1.Ignore]) ||
		before.Annotations[resourcesv1alpha1.Kstatus] != after.Annotations[resourcesv1alpha1.Kstatus]
}

// overwritten reports whether an update changed the conditions that this controller writes.
func overwritten(before, after *resourcesv1alpha1.ManagedResource) bool {
	return corev1beta1.ConditionsDiffer(before.Status.Conditions, after.Status.Conditions,
		resourcesv1alpha1.ResourcesHealthy, resourcesv1alpha1.ResourcesProgressing)
}

func appliedStatus(mr *resourcesv1alpha1.ManagedResource) corev1beta1.ConditionStatus {
	if applied := corev1beta1.GetCondition(mr.Status.Conditions, resourcesv1alpha1.ResourcesApplied); applied != nil {
		return applied.Status
	}
	return ""
}

// Kstatus reports whether objects of kinds without a rule are judged by their status: an annotation of the set decides, otherwise the
// configuration.
func Kstatus(mr *resourcesv1alpha1.ManagedResource, configured bool) bool {
	switch mr.Annotations[resourcesv1alpha1.Kstatus] {
	case "true":
		return true
	case "false":
		return false
	}
	return configured
}
