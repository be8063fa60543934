package validation

import (
	"fmt"
	"math"
	"time"

	rbacv1 "k8s.io/api/rbac/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	metav1validation "k8s.io/apimachinery/pkg/apis/meta/v1/validation"
	utilvalidation "k8s.io/apimachinery/pkg/util/validation"
	"k8s.io/apimachinery/pkg/util/validation/field"
	"k8s.io/utils/ptr"

	operatorv1alpha1 "github.com/espalier-dev/espalier/api/operator/v1alpha1"
	"github.com/espalier-dev/espalier/internal/garden/versions"
)

func gardener(path *field.Path, cluster, old operatorv1alpha1.VirtualCluster) field.ErrorList {
	settings, before := cluster.Gardener, old.Gardener
	found := gardenerAPIServer(path.Child("gardenerAPIServer"), cluster, ptr.Deref(before.APIServer, operatorv1alpha1.GardenerAPIServer{}))
	admission := ptr.Deref(settings.AdmissionController, operatorv1alpha1.GardenerAdmissionController{})
	found = append(found, resourceAdmission(path.Child("gardenerAdmissionController", "resourceAdmissionConfiguration"),
		ptr.Deref(admission.ResourceAdmissionConfiguration, operatorv1alpha1.ResourceAdmissionConfiguration{}))...)

	manager := ptr.Deref(settings.ControllerManager, operatorv1alpha1.GardenerControllerManager{})
	stored := ptr.Deref(before.ControllerManager, operatorv1alpha1.GardenerControllerManager{}).FeatureGates
	at := path.Child("gardenerControllerManager")
	found = append(found, gardenerFeatureGates(at, versions.GardenerControllerManager, manager.FeatureGates, stored)...)
	for i, quota := range manager.DefaultProjectQuotas {
		found = append(found, metav1validation.ValidateLabelSelector(quota.ProjectSelector,
			metav1validation.LabelSelectorValidationOptions{AllowInvalidLabelValueInSelector: true},
			at.Child("defaultProjectQuotas").Index(i).Child("projectSelector"))...)
	}

	scheduler := ptr.Deref(settings.Scheduler, operatorv1alpha1.GardenerScheduler{})
	stored = ptr.Deref(before.Scheduler, operatorv1alpha1.GardenerScheduler{}).FeatureGates
	found = append(found, gardenerFeatureGates(path.Child("gardenerScheduler"), versions.GardenerScheduler, scheduler.FeatureGates, stored)...)

	at = path.Child("gardenerResourceManager", "additionalTargetNamespaces")
	for i, namespace := range ptr.Deref(settings.ResourceManager, operatorv1alpha1.GardenerResourceManager{}).AdditionalTargetNamespaces {
		for _, message := range utilvalidation.IsDNS1123Label(namespace) {
			found = append(found, field.Invalid(at.Index(i), namespace, message))
		}
	}
	return found
}

// gardenerFeatureGates judges feature gates of a component. If only an earlier release of Gardener had a feature gate, the gate is allowed
// as long as its value does not change. The gate HVPA is always allowed.
func gardenerFeatureGates(path *field.Path, component versions.Component, gates, stored map[string]bool) field.ErrorList {
	var found field.ErrorList
	for _, name := range sortedKeys(gates) {
		at, value := path.Child("featureGates", name), gates[name]
		gate, known := versions.GardenerFeatureGate(component, name)
		if known {
			found = append(found, lockedGate(at, value, gate)...)
			continue
		}
		before, had := stored[name]
		unchanged := had && before == value && versions.RetiredGardenerFeatureGate(name)
		if !unchanged && name != versions.GardenerFeatureGateHVPA {
			found = append(found, field.Forbidden(at, "not supported by Gardener"))
		}
	}
	return found
}

func gardenerAPIServer(path *field.Path, cluster operatorv1alpha1.VirtualCluster, old operatorv1alpha1.GardenerAPIServer) field.ErrorList {
	settings := cluster.Gardener.APIServer
	if settings == nil {
		return nil
	}
	found := gardenerFeatureGates(path, versions.GardenerAPIServer, settings.FeatureGates, old.FeatureGates)
	for i, plugin := range settings.AdmissionPlugins {
		at := path.Child("admissionPlugins").Index(i).Child("name")
		if plugin.Name == "" {
			return append(found, field.Required(at, nameRequired))
		}
		if versions.RetiredGardenerAdmissionPlugin(plugin.Name) && hasPlugin(old.AdmissionPlugins, plugin) {
			continue
		}
		found = append(found, oneOf(at, plugin.Name, versions.GardenerAdmissionPlugins()...)...)
	}
	found = append(found, auditConfig(path.Child("auditConfig"), settings.AuditConfig)...)
	found = append(found, watchCacheSizes(path.Child("watchCacheSizes"), settings.WatchCacheSizes)...)
	found = append(found, logging(path.Child("logging"), settings.Logging)...)
	found = append(found, requests(path.Child("requests"), settings.Requests)...)
	found = append(found, gardenerEncryption(path.Child("encryptionConfig"), cluster)...)
	found = append(found, goAwayChance(path.Child("goAwayChance"), settings.GoAwayChance)...)
	return append(found, adminKubeconfig(path.Child("shootAdminKubeconfigMaxExpiration"), settings.ShootAdminKubeconfigMaxExpiration)...)
}

func goAwayChance(path *field.Path, chance *float64) field.ErrorList {
	const most = 0.02
	if chance == nil || *chance >= 0 && *chance <= most {
		return nil
	}
	return field.ErrorList{field.Invalid(path, *chance, "must be between 0 and 0.02")}
}

func adminKubeconfig(path *field.Path, expiration *metav1.Duration) field.ErrorList {
	const least, most = time.Hour, time.Duration(math.MaxUint32+1) * time.Second
	if expiration == nil || expiration.Duration >= least && expiration.Duration <= most {
		return nil
	}
	return field.ErrorList{field.Invalid(path, expiration.Duration.String(), fmt.Sprintf("must be between %s and %s", least, most))}
}

// resourceAdmission returns errors that name the field mode instead of operationMode, and versions instead of apiVersions: clients of
// Gardener rely on these names.
func resourceAdmission(path *field.Path, config operatorv1alpha1.ResourceAdmissionConfiguration) field.ErrorList {
	var found field.ErrorList
	if config.OperationMode != nil {
		found = oneOf(path.Child("mode"), *config.OperationMode, operatorv1alpha1.ResourceAdmissionBlock, operatorv1alpha1.ResourceAdmissionLog)
	}
	for i, subject := range config.UnrestrictedSubjects {
		found = append(found, unrestrictedSubject(path.Child("unrestrictedSubjects").Index(i), subject)...)
	}
	for i, limit := range config.Limits {
		found = append(found, resourceLimit(path.Child("limits").Index(i), limit)...)
	}
	return found
}

func unrestrictedSubject(path *field.Path, subject rbacv1.Subject) field.ErrorList {
	found := oneOf(path.Child("kind"), subject.Kind, rbacv1.GroupKind, rbacv1.ServiceAccountKind, rbacv1.UserKind)
	if subject.Name == "" {
		found = append(found, field.Invalid(path.Child("name"), subject.Name, "name must not be empty"))
	}
	switch subject.Kind {
	case rbacv1.ServiceAccountKind:
		if subject.Namespace == "" {
			found = append(found, field.Invalid(path.Child("namespace"), subject.Namespace, "name must not be empty"))
		}
		if subject.APIGroup != "" {
			found = append(found, field.Invalid(path.Child("apiGroup"), subject.APIGroup, "apiGroup must be empty"))
		}
	case rbacv1.UserKind, rbacv1.GroupKind:
		if subject.Namespace != "" {
			found = append(found, field.Invalid(path.Child("namespace"), subject.Namespace, "name must be empty"))
		}
		found = append(found, oneOf(path.Child("apiGroup"), subject.APIGroup, rbacv1.GroupName)...)
	}
	return found
}

func resourceLimit(path *field.Path, limit operatorv1alpha1.ResourceLimit) field.ErrorList {
	var found field.ErrorList
	for _, each := range []struct {
		name string
		list []string
	}{{"apiGroups", limit.APIGroups}, {"versions", limit.APIVersions}, {"resources", limit.Resources}} {
		if len(each.list) == 0 {
			found = append(found, field.Invalid(path.Child(each.name), each.list, "must at least have one element"))
		}
		for i, text := range each.list {
			if text == "" && each.name != "apiGroups" { // the core group is empty
				found = append(found, field.Invalid(path.Child(each.name).Index(i), text, mustNotBeNone))
			}
		}
	}
	if limit.Size != nil && limit.Size.Sign() < 0 {
		found = append(found, field.Invalid(path.Child("size"), limit.Size.String(), "value must not be negative"))
	}
	if limit.Count != nil && *limit.Count < 0 {
		found = append(found, field.Invalid(path.Child("count"), *limit.Count, "value must not be negative"))
	}
	return found
}
