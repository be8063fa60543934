package managedresources

import (
	"fmt"

	corev1beta1 "github.com/espalier-dev/espalier/api/core/v1beta1"
	resourcesv1alpha1 "github.com/espalier-dev/espalier/api/resources/v1alpha1"
)

// CheckApplied returns an error that says why mr is not applied; nil if the controller has observed its latest spec and ResourcesApplied is
// True.
func CheckApplied(mr *resourcesv1alpha1.ManagedResource) error {
	if observed := mr.Status.ObservedGeneration; observed != mr.Generation {
		return fmt.Errorf("observed generation of managed resource %s/%s outdated (%d/%d)", mr.Namespace, mr.Name, observed, mr.Generation)
	}
	return checkCondition(mr, resourcesv1alpha1.ResourcesApplied, corev1beta1.ConditionTrue)
}

// CheckHealthy returns an error that says why the objects of mr are not healthy; nil if ResourcesHealthy is True. It does not check whether
// the controller has applied the latest spec; CheckAppliedAndHealthy does.
func CheckHealthy(mr *resourcesv1alpha1.ManagedResource) error {
	return checkCondition(mr, resourcesv1alpha1.ResourcesHealthy, corev1beta1.ConditionTrue)
}

// CheckAppliedAndHealthy returns the error of CheckApplied or else the error of CheckHealthy.
func CheckAppliedAndHealthy(mr *resourcesv1alpha1.ManagedResource) error {
	if err := CheckApplied(mr); err != nil {
		return err
	}
	return CheckHealthy(mr)
}

// CheckNotProgressing returns an error that says why mr is not rolled out; nil if ResourcesProgressing is False.
func CheckNotProgressing(mr *resourcesv1alpha1.ManagedResource) error {
	return checkCondition(mr, resourcesv1alpha1.ResourcesProgressing, corev1beta1.ConditionFalse)
}

func checkCondition(mr *resourcesv1alpha1.ManagedResource, t corev1beta1.ConditionType, want corev1beta1.ConditionStatus) error {
	condition := corev1beta1.GetCondition(mr.Status.Conditions, t)
	if condition == nil {
		return fmt.Errorf("condition %s for managed resource %s/%s has not been reported yet", t, mr.Namespace, mr.Name)
	}
	if condition.Status != want {
		return fmt.Errorf("condition %s of managed resource %s/%s is %s: %s", t, mr.Namespace, mr.Name, condition.Status, condition.Message)
	}
	return nil
}
