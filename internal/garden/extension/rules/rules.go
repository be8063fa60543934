package rules

import (
	"fmt"
	"slices"
	"strings"

	"github.com/opencontainers/go-digest"
	metav1validation "k8s.io/apimachinery/pkg/apis/meta/v1/validation"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/util/validation"
	"k8s.io/apimachinery/pkg/util/validation/field"
	"k8s.io/utils/ptr"

	corev1beta1 "github.com/espalier-dev/espalier/api/core/v1beta1"
	operatorv1alpha1 "github.com/espalier-dev/espalier/api/operator/v1alpha1"
	"github.com/espalier-dev/espalier/internal/chart/placeholder"
)

// maxName is the limit of the name of an Extension. Its namespace in the runtime cluster begins with runtime-extension-.
const maxName = validation.DNS1123LabelMaxLength - len("runtime-extension-")

// reservedPrefixes are prefixes with which the name of an Extension must not begin: with such a prefix, ManagedResources of two Extensions
// could have the same name.
var reservedPrefixes = []string{"registration-", "admission-runtime-", "admission-virtual-"}

// kinds are the kinds of the API group extensions.gardener.cloud that extensions reconcile.
var kinds = []string{
	"BackupBucket", "BackupEntry", "Bastion", "ContainerRuntime", "ControlPlane", "DNSRecord", operatorv1alpha1.KindExtension,
	"Infrastructure", "Network", "OperatingSystemConfig", "SelfHostedShootExposure", "Worker",
}

// Validate returns the errors of an Extension.
func Validate(e *operatorv1alpha1.Extension) field.ErrorList {
	var errs field.ErrorList
	if problems := validation.IsDNS1123Label(e.Name); len(problems) > 0 {
		errs = append(errs, field.Invalid(field.NewPath("metadata", "name"), e.Name, strings.Join(problems, "; ")))
	} else if len(e.Name) > maxName {
		errs = append(errs, field.TooLong(field.NewPath("metadata", "name"), e.Name, maxName))
	}
	for _, each := range reservedPrefixes {
		if strings.HasPrefix(e.Name, each) {
			errs = append(errs, field.Invalid(field.NewPath("metadata", "name"), e.Name, fmt.Sprintf(
				"must not begin with %s, because ManagedResources of other Extensions have such names; choose another name", each)))
		}
	}
	errs = append(errs, resources(e.Spec.Resources, field.NewPath("spec", "resources"))...)
	at := field.NewPath("spec", "deployment")
	if e.Spec.Deployment == nil {
		return append(errs, field.Required(at, "say how the extension or its admission controllers are deployed"))
	}
	return append(errs, deployment(*e.Spec.Deployment, at)...)
}

// ValidateUpdate returns the errors of an Extension that replaces an old one.
func ValidateUpdate(updated, old *operatorv1alpha1.Extension) field.ErrorList {
	errs := Validate(updated)
	for i, each := range updated.Spec.Resources {
		at := slices.IndexFunc(old.Spec.Resources, func(o operatorv1alpha1.ExtensionResource) bool {
			return o.Kind == each.Kind && o.Type == each.Type
		})
		if at >= 0 && ptr.Deref(old.Spec.Resources[at].Primary, true) != ptr.Deref(each.Primary, true) {
			errs = append(errs, field.Invalid(
				field.NewPath("spec", "resources").Index(i).Child("primary"), ptr.Deref(each.Primary, true), "field is immutable",
			))
		}
	}
	return errs
}

// Deletable returns an error that says why an Extension must not be deleted; nil if it may.
func Deletable(e *operatorv1alpha1.Extension) error {
	for _, each := range []corev1beta1.ConditionType{operatorv1alpha1.ExtensionRequiredRuntime, operatorv1alpha1.ExtensionRequiredVirtual} {
		required := corev1beta1.GetCondition(e.Status.Conditions, each)
		if required != nil && required.Status == corev1beta1.ConditionTrue {
			return fmt.Errorf("extension is still being required: %q", required.Message)
		}
	}
	return nil
}

func resources(all []operatorv1alpha1.ExtensionResource, at *field.Path) field.ErrorList {
	var errs field.ErrorList
	seen := map[[2]string]bool{}
	for i, each := range all {
		here := at.Index(i)
		if !slices.Contains(kinds, each.Kind) {
			errs = append(errs, field.NotSupported(here.Child("kind"), each.Kind, kinds))
		}
		if each.Type == "" {
			errs = append(errs, field.Required(here.Child("type"), "name the type of the resource"))
		}
		key := [2]string{each.Kind, each.Type}
		if seen[key] {
			errs = append(errs, field.Duplicate(here, each.Kind+"/"+each.Type))
		}
		seen[key] = true
		if each.Kind == operatorv1alpha1.KindExtension {
			errs = append(errs, clusters(each, here)...)
		} else {
			errs = append(errs, onlyForExtensions(each, here)...)
		}
	}
	return errs
}

func clusters(r operatorv1alpha1.ExtensionResource, at *field.Path) field.ErrorList {
	var errs field.ErrorList
	for i, each := range r.AutoEnable {
		if slices.Contains(r.AutoEnable[:i], each) {
			errs = append(errs, field.Duplicate(at.Child("autoEnable").Index(i), each))
		}
	}
	for i, each := range r.ClusterCompatibility {
		if slices.Contains(r.ClusterCompatibility[:i], each) {
			errs = append(errs, field.Duplicate(at.Child("clusterCompatibility").Index(i), each))
		}
	}
	for i, each := range r.AutoEnable {
		if !slices.Contains(r.ClusterCompatibility, each) {
			errs = append(errs, field.Forbidden(
				at.Child("autoEnable").Index(i), fmt.Sprintf("add %q to clusterCompatibility, or remove it here", each),
			))
		}
	}
	return errs
}

// onlyForExtensions returns an error for each field that only resources of the kind Extension may have.
func onlyForExtensions(r operatorv1alpha1.ExtensionResource, at *field.Path) field.ErrorList {
	var errs field.ErrorList
	for _, each := range []struct {
		name string
		set  bool
	}{
		{"autoEnable", len(r.AutoEnable) > 0},
		{"clusterCompatibility", len(r.ClusterCompatibility) > 0},
		{"reconcileTimeout", r.ReconcileTimeout != nil},
		{"lifecycle", r.Lifecycle != nil},
		{"workerlessSupported", r.WorkerlessSupported != nil},
	} {
		if each.set {
			errs = append(errs, field.Forbidden(at.Child(each.name), "field must not be set when kind is not Extension"))
		}
	}
	return errs
}

func deployment(d operatorv1alpha1.ExtensionDeployment, at *field.Path) field.ErrorList {
	var errs field.ErrorList
	if d.ExtensionDeployment == nil && d.AdmissionDeployment == nil {
		errs = append(errs, field.Required(at, "set extension or admission, or both"))
	}
	names := map[string]bool{}
	for i, each := range d.Resources {
		errs = append(errs, namedResource(each, names, at.Child("resources").Index(i))...)
		names[each.Name] = true
	}
	if own := d.ExtensionDeployment; own != nil {
		here := at.Child("extension")
		errs = append(errs, helm(own.Helm, here.Child("helm"))...)
		errs = append(errs, values(own.Values, names, here.Child("values"))...)
		errs = append(errs, values(own.RuntimeClusterValues, names, here.Child("runtimeClusterValues"))...)
		errs = append(errs, metav1validation.ValidateLabelSelector(
			own.SeedSelector, metav1validation.LabelSelectorValidationOptions{}, here.Child("seedSelector"),
		)...)
	}
	if own := d.AdmissionDeployment; own != nil {
		here := at.Child("admission")
		if own.RuntimeCluster == nil && own.VirtualCluster == nil {
			errs = append(errs, field.Required(here, "set runtimeCluster or virtualCluster, or both"))
		}
		if own.RuntimeCluster != nil {
			errs = append(errs, helm(own.RuntimeCluster.Helm, here.Child("runtimeCluster", "helm"))...)
		}
		if own.VirtualCluster != nil {
			errs = append(errs, helm(own.VirtualCluster.Helm, here.Child("virtualCluster", "helm"))...)
		}
		errs = append(errs, values(own.Values, names, here.Child("values"))...)
	}
	return errs
}

func namedResource(r operatorv1alpha1.NamedResourceReference, earlier map[string]bool, at *field.Path) field.ErrorList {
	var errs field.ErrorList
	switch {
	case r.Name == "":
		errs = append(errs, field.Required(at.Child("name"), "values refer to the resource by this name"))
	case earlier[r.Name]:
		errs = append(errs, field.Duplicate(at.Child("name"), r.Name))
	}
	here := at.Child("resourceRef")
	if r.ResourceRef.APIVersion != "v1" {
		errs = append(errs, field.NotSupported(here.Child("apiVersion"), r.ResourceRef.APIVersion, []string{"v1"}))
	}
	if known := []string{"ConfigMap", "Secret"}; !slices.Contains(known, r.ResourceRef.Kind) {
		errs = append(errs, field.NotSupported(here.Child("kind"), r.ResourceRef.Kind, known))
	}
	if r.ResourceRef.Name == "" {
		errs = append(errs, field.Required(here.Child("name"), "name the object in the namespace of the Garden"))
	}
	return errs
}

func helm(h *operatorv1alpha1.ExtensionHelm, at *field.Path) field.ErrorList {
	switch {
	case h == nil:
		return field.ErrorList{field.Required(at, "name the chart")}
	case h.OCIRepository == nil && len(h.RawChart) == 0:
		return field.ErrorList{field.Required(at, "set ociRepository or rawChart")}
	case h.OCIRepository == nil:
		return nil
	case len(h.RawChart) > 0:
		return field.ErrorList{field.Forbidden(at.Child("rawChart"), "set either ociRepository or rawChart")}
	}
	return repository(*h.OCIRepository, at.Child("ociRepository"))
}

func repository(r operatorv1alpha1.OCIRepository, at *field.Path) field.ErrorList {
	var errs field.ErrorList
	if ptr.Deref(r.Ref, "") != "" {
		for _, other := range []struct {
			name  string
			value *string
		}{{"repository", r.Repository}, {"tag", r.Tag}, {"digest", r.Digest}} {
			if ptr.Deref(other.value, "") != "" {
				errs = append(errs, field.Forbidden(at.Child(other.name), "field must not be set when ref is set"))
			}
		}
	} else if ptr.Deref(r.Repository, "") == "" {
		errs = append(errs, field.Required(at.Child("repository"), "set ref or repository"))
	} else if _, complete := r.Reference(); !complete {
		errs = append(errs, field.Required(at.Child("tag"), "set tag or digest"))
	}
	if given := ptr.Deref(r.Digest, ""); given != "" && digest.Digest(given).Validate() != nil {
		errs = append(errs, field.Invalid(at.Child("digest"), given, "must be a digest such as sha256:0123…"))
	}
	if r.PullSecretRef != nil && r.PullSecretRef.Name == "" {
		errs = append(errs, field.Required(at.Child("pullSecretRef", "name"), "name the Secret"))
	}
	if r.CABundleSecretRef != nil && r.CABundleSecretRef.Name == "" {
		errs = append(errs, field.Required(at.Child("caBundleSecretRef", "name"), "name the Secret"))
	}
	return errs
}

// values checks the placeholders. The error does not quote the values, because they may be confidential.
func values(raw *runtime.RawExtension, names map[string]bool, at *field.Path) field.ErrorList {
	if raw == nil {
		return nil
	}
	used, err := placeholder.Names(raw.Raw)
	if err != nil {
		return field.ErrorList{field.Invalid(at, field.OmitValueType{}, err.Error())}
	}
	var errs field.ErrorList
	for _, each := range used {
		if !names[each] {
			errs = append(errs, field.Invalid(at, field.OmitValueType{},
				fmt.Sprintf("refers to resource %q, which spec.deployment.resources does not name", each)))
		}
	}
	return errs
}
