package config

import (
	corev1 "k8s.io/api/core/v1"
	metav1validation "k8s.io/apimachinery/pkg/apis/meta/v1/validation"
	"k8s.io/apimachinery/pkg/util/validation"
	"k8s.io/apimachinery/pkg/util/validation/field"
)

// validateTolerations applies the rules that the API server has for the tolerations of a Pod, so that the API server does not refuse a Pod
// because of tolerations that our webhook has added.
func validateTolerations(tolerations []corev1.Toleration, at *field.Path) field.ErrorList {
	errs := make(field.ErrorList, 0, len(tolerations))
	for i := range tolerations {
		errs = append(errs, validateToleration(tolerations[i], at.Index(i))...)
	}
	return errs
}

func validateToleration(t corev1.Toleration, at *field.Path) field.ErrorList {
	var errs field.ErrorList
	if t.Key != "" {
		errs = append(errs, metav1validation.ValidateLabelName(t.Key, at.Child("key"))...)
	}
	if t.Key == "" && t.Operator != corev1.TolerationOpExists {
		errs = append(errs, field.Invalid(at.Child("operator"), t.Operator, "must be Exists when key is empty"))
	}
	if t.TolerationSeconds != nil && t.Effect != corev1.TaintEffectNoExecute {
		errs = append(errs, field.Invalid(at.Child("effect"), t.Effect, "must be NoExecute when tolerationSeconds is set"))
	}
	switch t.Operator {
	case corev1.TolerationOpEqual, "":
		errs = append(errs, invalid(at.Child("value"), t.Value, validation.IsValidLabelValue(t.Value))...)
	case corev1.TolerationOpExists:
		if t.Value != "" {
			errs = append(errs, field.Invalid(at.Child("value"), t.Value, "must be empty when operator is Exists"))
		}
	default:
		errs = append(errs, field.NotSupported(at.Child("operator"), t.Operator, []corev1.TolerationOperator{
			corev1.TolerationOpEqual, corev1.TolerationOpExists,
		}))
	}
	if t.Effect != "" {
		errs = append(errs, validateOneOf(string(t.Effect), at.Child("effect"), "NoSchedule", "PreferNoSchedule", "NoExecute")...)
	}
	return errs
}
