package validation

import (
	"cmp"
	"fmt"
	"maps"
	"slices"

	"k8s.io/apimachinery/pkg/util/sets"
	"k8s.io/apimachinery/pkg/util/validation/field"

	operatorv1alpha1 "github.com/espalier-dev/espalier/api/operator/v1alpha1"
	"github.com/espalier-dev/espalier/internal/garden/versions"
)

// Texts that several rules share.
const (
	nameRequired  = "must provide a name"
	mustNotBeNone = "must not be empty"
)

func sortedKeys[K cmp.Ordered, V any](m map[K]V) []K { return slices.Sorted(maps.Keys(m)) }

func oneOf[T ~string](path *field.Path, value T, allowed ...T) field.ErrorList {
	if slices.Contains(allowed, value) {
		return nil
	}
	return field.ErrorList{field.NotSupported(path, value, allowed)}
}

func required(path *field.Path, text, detail string) field.ErrorList {
	if text != "" {
		return nil
	}
	return field.ErrorList{field.Required(path, detail)}
}

// notNegative judges a number that may be absent.
func notNegative[T int32 | int64](path *field.Path, value *T) field.ErrorList {
	if value == nil || *value >= 0 {
		return nil
	}
	return field.ErrorList{field.Invalid(path, *value, "must not be negative")}
}

// kubernetesFeatureGates judges feature gates of kube-apiserver and kube-controller-manager. For versions of Kubernetes that are not
// supported, no feature gates are known, so it returns no errors.
func kubernetesFeatureGates(path *field.Path, gates map[string]bool, kubernetes versions.Kubernetes) field.ErrorList {
	if !kubernetes.Supported() {
		return nil
	}
	var found field.ErrorList
	for _, name := range sortedKeys(gates) {
		at, value := path.Child(name), gates[name]
		gate, knowledge := kubernetes.FeatureGate(name)
		switch knowledge {
		case versions.Unknown:
			found = append(found, field.Invalid(at, value, "unknown feature gate "+name))
		case versions.Elsewhere:
			found = append(found, field.Forbidden(at, fmt.Sprintf("not supported in Kubernetes version %s", kubernetes)))
		case versions.Present:
			found = append(found, lockedGate(at, value, gate)...)
		}
	}
	return found
}

func lockedGate(path *field.Path, value bool, gate versions.FeatureGate) field.ErrorList {
	if !gate.Locked || value == gate.Default {
		return nil
	}
	return field.ErrorList{field.Forbidden(path, fmt.Sprintf("cannot set feature gate to %t, feature is locked to %t", value, gate.Default))}
}

func auditConfig(path *field.Path, config *operatorv1alpha1.AuditConfig) field.ErrorList {
	if config == nil || config.AuditPolicy == nil || config.AuditPolicy.ConfigMapRef == nil {
		return nil
	}
	return required(path.Child("auditPolicy", "configMapRef", "name"), config.AuditPolicy.ConfigMapRef.Name, nameRequired)
}

func watchCacheSizes(path *field.Path, sizes *operatorv1alpha1.WatchCacheSizes) field.ErrorList {
	if sizes == nil {
		return nil
	}
	found := notNegative(path.Child("default"), sizes.Default)
	for i, each := range sizes.Resources {
		at := path.Child("resources").Index(i)
		found = append(found, required(at.Child("resource"), each.Resource, mustNotBeNone)...)
		found = append(found, notNegative(at.Child("size"), &each.CacheSize)...)
	}
	return found
}

func logging(path *field.Path, settings *operatorv1alpha1.APIServerLogging) field.ErrorList {
	if settings == nil {
		return nil
	}
	return append(notNegative(path.Child("verbosity"), settings.Verbosity),
		notNegative(path.Child("httpAccessVerbosity"), settings.HTTPAccessVerbosity)...)
}

func requests(path *field.Path, settings *operatorv1alpha1.APIServerRequests) field.ErrorList {
	const mostNonMutating, mostMutating = 5000, 2500
	if settings == nil {
		return nil
	}
	found := limited(path.Child("maxNonMutatingInflight"), settings.MaxNonMutatingInflight, mostNonMutating)
	return append(found, limited(path.Child("maxMutatingInflight"), settings.MaxMutatingInflight, mostMutating)...)
}

func limited(path *field.Path, value *int32, most int32) field.ErrorList {
	if value == nil || *value <= most {
		return notNegative(path, value)
	}
	return field.ErrorList{field.Invalid(path, *value, fmt.Sprintf("cannot set higher than %d", most))}
}

// duplicates returns an error for each string that is already at an earlier position of the list.
func duplicates(path *field.Path, list []string) field.ErrorList {
	var found field.ErrorList
	seen := sets.New[string]()
	for i, each := range list {
		if seen.Has(each) {
			found = append(found, field.Duplicate(path.Index(i), each))
		}
		seen.Insert(each)
	}
	return found
}
