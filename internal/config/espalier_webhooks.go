package config

import (
	"net/url"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/validation"
	"k8s.io/apimachinery/pkg/util/validation/field"
	"k8s.io/utils/ptr"
)

// The default of the shutdown delay, its maximum, and the shortest validity of an authority or a certificate.
const (
	defaultShutdownDelay   = 2 * time.Second
	maxShutdownDelay       = 4 * time.Second
	minCertificateValidity = time.Minute
)

// EspalierWebhooks configures webhook-server.
type EspalierWebhooks struct {
	// ShutdownDelay is how long requests are still accepted after the process was asked to stop. During this time it reports that it is
	// not ready, so that load balancers can switch to other replicas. At least 0, at most 4s.
	ShutdownDelay *metav1.Duration `json:"shutdownDelay,omitempty"`
	// LegacyReplicaCriteria enables the annotation high-availability-config.resources.gardener.cloud/replica-criteria of namespaces.
	LegacyReplicaCriteria bool `json:"legacyReplicaCriteria,omitempty"`
	// SelfManaged makes the server issue its own certificates and maintain its own webhook configurations. Nil: certificates come from
	// server.webhooks.tls.serverCertDir, and another client maintains the configurations.
	SelfManaged *EspalierSelfManagedWebhooks `json:"selfManaged,omitempty"`
}

// EspalierSelfManagedWebhooks configures a server that manages its certificates and webhook configurations itself.
type EspalierSelfManagedWebhooks struct {
	// SecretName is the name of the Secret with the authority and the certificate, in the server's own namespace.
	SecretName string `json:"secretName,omitempty"`
	// ConfigurationName is the name of the webhook configurations.
	ConfigurationName string `json:"configurationName,omitempty"`
	// ServiceName is the name of the Service, in the server's own namespace, by which API servers reach the server at port 443. Ignored if URL
	// is set.
	ServiceName string `json:"serviceName,omitempty"`
	// URL is the address by which API servers reach the server without a Service: https://host:port, without a path. The certificate is
	// issued for its host.
	URL string `json:"url,omitempty"`
	// AuthorityValidity and CertificateValidity are how long authority and certificate are valid; they are renewed after two thirds of
	// that time. At least 1m; a certificate never expires later than its authority.
	AuthorityValidity   *metav1.Duration `json:"authorityValidity,omitempty"`
	CertificateValidity *metav1.Duration `json:"certificateValidity,omitempty"`
	// ExcludedNamespaces are namespaces for whose objects no webhook is called, in addition to kube-system and the server's own namespace.
	// They may be set with flavor standalone only.
	ExcludedNamespaces []string `json:"excludedNamespaces,omitempty"`
	// Flavor is the kind of cluster that the configurations are for: standalone (any cluster), gardener-runtime or gardener-shoot.
	Flavor string `json:"flavor,omitempty"`
}

// Flavors of webhook configurations.
const (
	FlavorStandalone      = "standalone"
	FlavorGardenerRuntime = "gardener-runtime"
	FlavorGardenerShoot   = "gardener-shoot"
)

func defaultEspalierWebhooks(c *EspalierWebhooks) {
	setIfNil(&c.ShutdownDelay, duration(defaultShutdownDelay))
	defaultSelfManagedWebhooks(c.SelfManaged, "espalier-webhook-server")
}

// defaultSelfManagedWebhooks sets the defaults. The name is the default of SecretName, ConfigurationName and ServiceName.
func defaultSelfManagedWebhooks(c *EspalierSelfManagedWebhooks, name string) {
	if c == nil {
		return
	}
	setIfZero(&c.SecretName, name)
	setIfZero(&c.ConfigurationName, name)
	setIfZero(&c.ServiceName, name)
	setIfZero(&c.Flavor, FlavorStandalone)
	setIfNil(&c.AuthorityValidity, duration(365*Day))
	setIfNil(&c.CertificateValidity, duration(90*Day))
}

func validateEspalierWebhooks(c EspalierWebhooks, at *field.Path) field.ErrorList {
	errs := validateShutdownDelay(c.ShutdownDelay, at.Child("shutdownDelay"))
	if c.SelfManaged != nil {
		errs = append(errs, validateSelfManagedWebhooks(*c.SelfManaged, at.Child("selfManaged"))...)
	}
	return errs
}

func validateShutdownDelay(d *metav1.Duration, at *field.Path) field.ErrorList {
	if delay := ptr.Deref(d, metav1.Duration{}).Duration; delay < 0 || delay > maxShutdownDelay {
		return field.ErrorList{field.Invalid(at, delay.String(), "must be at least 0s and at most "+maxShutdownDelay.String())}
	}
	return nil
}

func validateSelfManagedWebhooks(c EspalierSelfManagedWebhooks, at *field.Path) field.ErrorList {
	var errs field.ErrorList
	errs = append(errs, invalid(at.Child("secretName"), c.SecretName, validation.IsDNS1123Subdomain(c.SecretName))...)
	errs = append(errs, invalid(at.Child("configurationName"), c.ConfigurationName, validation.IsDNS1123Subdomain(c.ConfigurationName))...)
	errs = append(errs, invalid(at.Child("serviceName"), c.ServiceName, validation.IsDNS1035Label(c.ServiceName))...)
	if c.URL != "" {
		parsed, err := url.Parse(c.URL)
		if err != nil || parsed.Scheme != "https" || parsed.Hostname() == "" || parsed.Path != "" || parsed.RawQuery != "" ||
			parsed.Fragment != "" || parsed.User != nil {
			errs = append(errs, field.Invalid(at.Child("url"), c.URL, "must be https://host:port, without a path"))
		}
	}
	for _, each := range []struct {
		child    string
		validity *metav1.Duration
	}{{"authorityValidity", c.AuthorityValidity}, {"certificateValidity", c.CertificateValidity}} {
		if each.validity != nil && each.validity.Duration < minCertificateValidity {
			errs = append(errs,
				field.Invalid(at.Child(each.child), each.validity.Duration.String(), "must be at least "+minCertificateValidity.String()))
		}
	}
	errs = append(errs, validateNamespaces(c.ExcludedNamespaces, at.Child("excludedNamespaces"))...)
	if len(c.ExcludedNamespaces) > 0 && c.Flavor != FlavorStandalone {
		errs = append(errs, field.Forbidden(at.Child("excludedNamespaces"), "only flavor standalone selects namespaces by their names"))
	}
	return append(errs, validateOneOf(c.Flavor, at.Child("flavor"), FlavorStandalone, FlavorGardenerRuntime, FlavorGardenerShoot)...)
}

// validateStandaloneWebhooks validates webhooks that are the same in all clusters. The parameter certificate is the path of the setting
// that already names a certificate; empty if no setting does. The parameter about is the purpose of the webhooks, for messages.
func validateStandaloneWebhooks(c *EspalierSelfManagedWebhooks, certificate, about string, at *field.Path) field.ErrorList {
	if c == nil {
		return nil
	}
	var errs field.ErrorList
	if certificate != "" {
		errs = append(errs, field.Forbidden(at, "the certificate comes from "+certificate+" already: remove one of both"))
	}
	errs = append(errs, validateSelfManagedWebhooks(*c, at)...)
	if c.Flavor == FlavorGardenerRuntime || c.Flavor == FlavorGardenerShoot {
		errs = append(errs, field.NotSupported(at.Child("flavor"), c.Flavor, []string{FlavorStandalone}))
	}
	if len(c.ExcludedNamespaces) > 0 {
		errs = append(errs, field.Forbidden(at.Child("excludedNamespaces"), "the webhooks are about "+about+" only"))
	}
	return errs
}
