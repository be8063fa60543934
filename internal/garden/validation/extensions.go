package validation

import (
	"slices"

	"k8s.io/apimachinery/pkg/util/validation/field"

	operatorv1alpha1 "github.com/espalier-dev/espalier/api/operator/v1alpha1"
	"github.com/espalier-dev/espalier/internal/garden/extension/rules"
)

// dnsProviders judges the DNS providers of a Garden.
func dnsProviders(path *field.Path, dns *operatorv1alpha1.DNSManagement) field.ErrorList {
	if dns == nil {
		return nil
	}
	path = path.Child("providers")
	if len(dns.Providers) == 0 {
		return field.ErrorList{field.Required(path, "must provide at least one DNS provider")}
	}
	var found field.ErrorList
	seen := map[string]bool{}
	for i, provider := range dns.Providers {
		at := path.Index(i)
		found = append(found, required(at.Child("name"), provider.Name, nameRequired)...)
		found = append(found, required(at.Child("type"), provider.Type, "must provide the type of the DNSRecords")...)
		found = append(found, required(at.Child("secretRef", "name"), provider.SecretRef.Name, nameRequired)...)
		if seen[provider.Name] {
			found = append(found, field.Duplicate(at.Child("name"), provider.Name))
		}
		seen[provider.Name] = true
	}
	return found
}

// providerOfDomain judges the DNS provider of a domain. A Garden without DNS providers ignores it.
func providerOfDomain(path *field.Path, domain operatorv1alpha1.Domain, dns *operatorv1alpha1.DNSManagement) field.ErrorList {
	switch {
	case dns == nil:
		return nil
	case domain.Provider == nil || *domain.Provider == "":
		return field.ErrorList{field.Required(path, "provider name must be set if `.spec.dns` is set")}
	case !slices.ContainsFunc(dns.Providers, func(p operatorv1alpha1.DNSProvider) bool { return p.Name == *domain.Provider }):
		return field.ErrorList{field.Invalid(path, *domain.Provider, "provider name not found in .spec.dns.providers")}
	}
	return nil
}

// gardenExtensions judges the extensions of a Garden. An extension of the old Garden may have lost its Extension.
func gardenExtensions(path *field.Path, g, old *operatorv1alpha1.Garden, available []operatorv1alpha1.Extension) field.ErrorList {
	var found field.ErrorList
	seen := map[string]bool{}
	for i, each := range g.Spec.Extensions {
		at := path.Index(i).Child("type")
		had := slices.ContainsFunc(old.Spec.Extensions, func(o operatorv1alpha1.GardenExtension) bool { return o.Type == each.Type })
		switch {
		case each.Type == "":
			found = append(found, field.Required(at, "must provide a type"))
		case seen[each.Type]:
			found = append(found, field.Duplicate(at, each.Type))
		case !had && !rules.Offers(available, operatorv1alpha1.KindExtension, each.Type):
			found = append(found, field.Invalid(at, each.Type,
				"no Extension has a resource of kind Extension and of this type whose clusterCompatibility contains garden"))
		}
		seen[each.Type] = true
	}
	return found
}

// namedResources judges the Secrets and ConfigMaps to which the configurations of extensions refer.
func namedResources(path *field.Path, all []operatorv1alpha1.NamedResourceReference) field.ErrorList {
	var found field.ErrorList
	seen := map[string]bool{}
	for i, each := range all {
		at := path.Index(i)
		found = append(found, required(at.Child("name"), each.Name, nameRequired)...)
		if seen[each.Name] {
			found = append(found, field.Duplicate(at.Child("name"), each.Name))
		}
		seen[each.Name] = true
		at = at.Child("resourceRef")
		found = append(found, oneOf(at.Child("apiVersion"), each.ResourceRef.APIVersion, "v1")...)
		found = append(found, oneOf(at.Child("kind"), each.ResourceRef.Kind, "Secret", "ConfigMap")...)
		found = append(found, required(at.Child("name"), each.ResourceRef.Name, nameRequired)...)
	}
	return found
}
