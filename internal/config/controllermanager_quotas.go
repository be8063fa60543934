package config

import (
	"maps"
	"slices"
	"time"

	corev1 "k8s.io/api/core/v1"
	apivalidation "k8s.io/apimachinery/pkg/api/validation"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	metav1validation "k8s.io/apimachinery/pkg/apis/meta/v1/validation"
	"k8s.io/apimachinery/pkg/util/validation"
	"k8s.io/apimachinery/pkg/util/validation/field"
	"k8s.io/utils/ptr"
)

// minStaleSyncPeriod is the shortest time in which the API server can be expected to answer the requests of a check.
const minStaleSyncPeriod = 100 * time.Millisecond

func validateStaleSyncPeriod(period *metav1.Duration, at *field.Path) field.ErrorList {
	if errs := validatePositive(period, at); len(errs) > 0 {
		return errs
	}
	if got := ptr.Deref(period, metav1.Duration{}).Duration; got < minStaleSyncPeriod {
		return field.ErrorList{field.Invalid(at, got.String(), "must be at least "+minStaleSyncPeriod.String())}
	}
	return nil
}

func validateQuotas(quotas []ProjectQuota, at *field.Path) field.ErrorList {
	errs := make(field.ErrorList, 0, 2*len(quotas))
	for i, quota := range quotas {
		entry := at.Index(i)
		errs = append(errs, validateQuota(quota.Config, entry.Child("config"))...)
		errs = append(errs,
			metav1validation.ValidateLabelSelector(quota.ProjectSelector, metav1validation.LabelSelectorValidationOptions{},
				entry.Child("projectSelector"))...)
	}
	return errs
}

// validateQuota reports what every API server refuses, because it would make all projects with this quota fail. It does not check resource
// names without a group: API servers differ in which of them they know.
func validateQuota(quota *corev1.ResourceQuota, at *field.Path) field.ErrorList {
	if quota == nil {
		return field.ErrorList{field.Required(at, "must provide a quota config")}
	}
	errs := metav1validation.ValidateLabels(quota.Labels, at.Child("metadata", "labels"))
	errs = append(errs, apivalidation.ValidateAnnotations(quota.Annotations, at.Child("metadata", "annotations"))...)
	for _, name := range slices.Sorted(maps.Keys(quota.Spec.Hard)) {
		limit, of := quota.Spec.Hard[name], at.Child("spec", "hard").Key(string(name))
		for _, problem := range validation.IsQualifiedName(string(name)) {
			errs = append(errs, field.Invalid(of, string(name), problem))
		}
		if limit.Sign() < 0 {
			errs = append(errs, field.Invalid(of, limit.String(), apivalidation.IsNegativeErrorMsg))
		}
	}
	return errs
}
