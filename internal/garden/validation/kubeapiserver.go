package validation

import (
	"fmt"
	"net/url"
	"slices"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/validation/field"
	"k8s.io/utils/ptr"

	operatorv1alpha1 "github.com/espalier-dev/espalier/api/operator/v1alpha1"
	"github.com/espalier-dev/espalier/internal/garden/versions"
)

// Limits of durations.
const (
	day                  = 24 * time.Hour
	longestEventTTL      = day
	leastTokenExpiration = 30 * day
	mostTokenExpiration  = 90 * day
)

// fieldsGoneFrom is the minor version of Kubernetes from which on the default size of watch caches and enableAnonymousAuthentication
// must not be set.
const fieldsGoneFrom = 35

func kubeAPIServer(path *field.Path, g, old *operatorv1alpha1.Garden) field.ErrorList {
	settings := g.Spec.VirtualCluster.Kubernetes.KubeAPIServer
	if settings == nil {
		return nil
	}
	before := ptr.Deref(old.Spec.VirtualCluster.Kubernetes.KubeAPIServer, operatorv1alpha1.KubeAPIServer{})
	kubernetes := kubernetesOf(g)

	found := oidcConfig(path.Child("oidcConfig"), settings)
	found = append(found, admissionPlugins(path.Child("admissionPlugins"), settings.AdmissionPlugins, kubernetes)...)
	found = append(found, runtimeConfig(path.Child("runtimeConfig"), settings.RuntimeConfig, kubernetes)...)
	found = append(found, auditConfig(path.Child("auditConfig"), settings.AuditConfig)...)
	found = append(found, watchCacheSizes(path.Child("watchCacheSizes"), settings.WatchCacheSizes)...)
	found = append(found, logging(path.Child("logging"), settings.Logging)...)
	found = append(found, requests(path.Child("requests"), settings.Requests)...)
	found = append(found, notNegative(path.Child("defaultNotReadyTolerationSeconds"), settings.DefaultNotReadyTolerationSeconds)...)
	found = append(found, notNegative(path.Child("defaultUnreachableTolerationSeconds"), settings.DefaultUnreachableTolerationSeconds)...)
	found = append(found, serviceAccounts(path.Child("serviceAccountConfig"), settings.ServiceAccountConfig, before.ServiceAccountConfig)...)
	found = append(found, eventTTL(path.Child("eventTTL"), settings.EventTTL, before.EventTTL)...)
	found = append(found, kubernetesFeatureGates(path.Child("featureGates"), settings.FeatureGates, kubernetes)...)

	found = append(found, goneFields(path, settings, kubernetes)...)
	found = append(found, apiAudiences(path.Child("apiAudiences"), settings.APIAudiences)...)
	found = append(found, resourceNames(path.Child("resourcesToStoreInETCDEvents"), settings.ResourcesToStoreInETCDEvents)...)
	found = append(found, kubernetesEncryption(path.Child("encryptionConfig"), settings.EncryptionConfig)...)
	found = append(found, structuredAuthentication(path.Child("structuredAuthentication"), settings)...)
	found = append(found, structuredAuthorization(path.Child("structuredAuthorization"), settings)...)
	found = append(found, autoscaling(path.Child("autoscaling"), settings.Autoscaling, corev1.ResourceList{
		corev1.ResourceCPU: resource.MustParse("20m"), corev1.ResourceMemory: resource.MustParse("200M"),
	})...)
	return append(found, domainPatterns(path.Child("sni", "domainPatterns"), settings.SNI, g.Spec.VirtualCluster.DNS.Domains)...)
}

// goneFields forbids fields that later versions of Kubernetes do not have.
func goneFields(path *field.Path, settings *operatorv1alpha1.KubeAPIServer, kubernetes versions.Kubernetes) field.ErrorList {
	if !kubernetes.AtLeast(fieldsGoneFrom) {
		return nil
	}
	detail := fmt.Sprintf("not supported for Kubernetes 1.%d and later", fieldsGoneFrom)
	var found field.ErrorList
	if settings.EnableAnonymousAuthentication != nil {
		found = append(found, field.Forbidden(path.Child("enableAnonymousAuthentication"), detail+
			", use anonymous in the AuthenticationConfiguration of structuredAuthentication"))
	}
	if settings.WatchCacheSizes != nil && settings.WatchCacheSizes.Default != nil {
		found = append(found, field.Forbidden(path.Child("watchCacheSizes", "default"), detail))
	}
	return found
}

// eventTTL tolerates an unchanged value above the limit, because Gardener 1.84 allowed 7 days.
func eventTTL(path *field.Path, ttl, stored *metav1.Duration) field.ErrorList {
	switch {
	case ttl == nil:
		return nil
	case ttl.Duration < 0:
		return field.ErrorList{field.Invalid(path, ttl.Duration.String(), "can not be negative")}
	case ttl.Duration > longestEventTTL && (stored == nil || *stored != *ttl):
		return field.ErrorList{field.Invalid(path, ttl.Duration.String(), "can not be longer than 24h")}
	}
	return nil
}

func apiAudiences(path *field.Path, audiences []string) field.ErrorList {
	var found field.ErrorList
	for i, audience := range audiences {
		if strings.Contains(audience, ",") {
			found = append(found, field.Invalid(path.Index(i), audience, "must not contain a comma"))
		}
	}
	return append(found, duplicates(path, audiences)...)
}

func serviceAccounts(path *field.Path, config, old *operatorv1alpha1.ServiceAccountConfig) field.ErrorList {
	if config == nil {
		return nil
	}
	var found field.ErrorList
	if config.Issuer != nil {
		found = append(found, issuer(path.Child("issuer"), *config.Issuer)...)
	}
	known := old != nil && slices.Equal(config.AcceptedIssuers, old.AcceptedIssuers)
	for i, each := range config.AcceptedIssuers {
		at := path.Child("acceptedIssuers").Index(i)
		if config.Issuer != nil && each == *config.Issuer {
			found = append(found, field.Invalid(at, each, "must not be the same as issuer"))
		}
		if !known {
			found = append(found, issuer(at, each)...)
		}
	}
	found = append(found, duplicates(path.Child("acceptedIssuers"), config.AcceptedIssuers)...)

	if expiration := config.MaxTokenExpiration; expiration != nil {
		at := path.Child("maxTokenExpiration")
		switch {
		case expiration.Duration < 0:
			found = append(found, field.Invalid(at, expiration.Duration.String(), "can not be negative"))
		case expiration.Duration > 0 && expiration.Duration < leastTokenExpiration:
			found = append(found, field.Forbidden(at, "must be at least 720h (30d)"))
		case expiration.Duration > mostTokenExpiration:
			found = append(found, field.Forbidden(at, "must be at most 2160h (90d)"))
		}
	}
	return found
}

func issuer(path *field.Path, text string) field.ErrorList {
	parsed, err := url.Parse(text)
	if err == nil && parsed.Scheme == "https" && parsed.Host != "" && parsed.User == nil && !strings.ContainsAny(text, "?#") {
		return nil
	}
	return field.ErrorList{field.Invalid(path, text, "must be an https URL with a host and without query, fragment and user")}
}

func structuredAuthentication(path *field.Path, settings *operatorv1alpha1.KubeAPIServer) field.ErrorList {
	if settings.StructuredAuthentication == nil {
		return nil
	}
	return disabledGate(path, "StructuredAuthenticationConfiguration", settings.FeatureGates)
}

func structuredAuthorization(path *field.Path, settings *operatorv1alpha1.KubeAPIServer) field.ErrorList {
	config := settings.StructuredAuthorization
	if config == nil {
		return nil
	}
	found := disabledGate(path, "StructuredAuthorizationConfiguration", settings.FeatureGates)
	names := make([]string, 0, len(config.Kubeconfigs))
	for i, each := range config.Kubeconfigs {
		if slices.Contains(names, each.AuthorizerName) {
			found = append(found, field.Duplicate(path.Child("kubeconfigs").Index(i).Child("authorizerName"), each.AuthorizerName))
		}
		names = append(names, each.AuthorizerName)
	}
	return found
}

func disabledGate(path *field.Path, name string, gates map[string]bool) field.ErrorList {
	if enabled, set := gates[name]; !set || enabled {
		return nil
	}
	return field.ErrorList{field.Forbidden(path, fmt.Sprintf("cannot be set if the feature gate %s is false", name))}
}

// domainPatterns forbids a pattern for the domain at which gardenlets expect the certificate authority of the Garden.
func domainPatterns(path *field.Path, sni *operatorv1alpha1.SNI, domains []operatorv1alpha1.Domain) field.ErrorList {
	if sni == nil || len(domains) == 0 {
		return nil
	}
	var found field.ErrorList
	reserved := "api." + domains[0].Name
	for i, pattern := range sni.DomainPatterns {
		if matchesPattern(pattern, reserved) {
			found = append(found, field.Invalid(path.Index(i), pattern, fmt.Sprintf("must not match %q", reserved)))
		}
	}
	return found
}
