package webhook

import (
	"errors"
	"fmt"
	"net/url"

	"github.com/prometheus/client_golang/prometheus"
	"k8s.io/client-go/rest"

	"github.com/espalier-dev/espalier/internal/admission/certificates"
	"github.com/espalier-dev/espalier/internal/admission/serving"
	"github.com/espalier-dev/espalier/internal/config"
	"github.com/espalier-dev/espalier/internal/process"
	"github.com/espalier-dev/espalier/internal/webhook/registrations"
)

// Who manages its certificates itself needs, in its own namespace, its Secret and the lease of who writes it, and in the
// cluster whose API server calls it, its webhook configurations.
// +kubebuilder:rbac:groups="",resources=secrets,verbs=create,namespace=espalier-system,roleName=espalier-webhook-server-selfmanaged
// +kubebuilder:rbac:groups="",resources=secrets,resourceNames=espalier-webhook-server,verbs=get;list;watch;update,namespace=espalier-system,roleName=espalier-webhook-server-selfmanaged
// +kubebuilder:rbac:groups=coordination.k8s.io,resources=leases,verbs=create,namespace=espalier-system,roleName=espalier-webhook-server-selfmanaged
// +kubebuilder:rbac:groups=coordination.k8s.io,resources=leases,resourceNames=espalier-webhook-server,verbs=get;update,namespace=espalier-system,roleName=espalier-webhook-server-selfmanaged
// +kubebuilder:rbac:groups=admissionregistration.k8s.io,resources=mutatingwebhookconfigurations;validatingwebhookconfigurations,verbs=create,roleName=espalier-webhook-server-target-selfmanaged
// +kubebuilder:rbac:groups=admissionregistration.k8s.io,resources=mutatingwebhookconfigurations;validatingwebhookconfigurations,resourceNames=espalier-webhook-server,verbs=get;list;watch;patch,roleName=espalier-webhook-server-target-selfmanaged

// keep makes the server serve a certificate of its own making, and keeps the webhook configurations.
func keep(clusters *process.Clusters, cfg *config.ResourceManagerConfiguration, registry prometheus.Registerer, server *serving.Server) error {
	own := cfg.Espalier.Webhooks.SelfManaged
	if own == nil {
		return nil
	}
	if clusters.OwnNamespace == "" {
		return errors.New("espalier.webhooks.selfManaged: the namespace of this process is not known; set the environment variable POD_NAMESPACE")
	}
	if own.URL == "" && !clusters.Same {
		return errors.New("espalier.webhooks.selfManaged: the API server of the target cannot reach a Service of the source; set espalier.webhooks.selfManaged.url")
	}
	hosts, err := hostsOf(own, clusters.OwnNamespace)
	if err != nil {
		return err
	}
	unlimited := rest.CopyConfig(clusters.Source.GetConfig()) // a lease must not wait behind other requests
	unlimited.QPS, unlimited.RateLimiter = -1, nil
	served := registrations.Own{Name: own.ConfigurationName, ServiceName: own.ServiceName, URL: own.URL, Excluded: own.ExcludedNamespaces}
	if clusters.Same {
		served.Namespace = clusters.OwnNamespace
	}
	address, err := outside(own, hosts[0])
	if err != nil {
		return err
	}
	log := clusters.Source.GetLogger().WithName("certificates")
	reached := &reachable{server: server, serverName: hosts[0], bindAddress: cfg.Server.Webhooks.BindAddress, outside: address, clock: clusters.Clock, log: log}
	keeper, err := certificates.New(certificates.Options{
		Own:       certificates.Connection{Config: unlimited, HTTPClient: clusters.Source.GetHTTPClient()},
		Called:    certificates.Connection{Config: clusters.TargetConfig, HTTPClient: clusters.TargetHTTPClient},
		Namespace: clusters.OwnNamespace, SecretName: own.SecretName, Hosts: hosts,
		AuthorityValidity: own.AuthorityValidity.Duration, CertificateValidity: own.CertificateValidity.Duration,
		Configurations: registrations.Configurations(own.Flavor, cfg.Webhooks, served),
		Reachable:      reached.ask, Clock: clusters.Clock, Log: log, Registry: registry,
	})
	if err != nil {
		return fmt.Errorf("keep certificates: %w", err)
	}
	server.UseCertificates(keeper.GetCertificate)
	if err := clusters.Source.Add(keeper); err != nil {
		return fmt.Errorf("keep certificates: %w", err)
	}
	return nil
}

// hostsOf returns what API servers call the server.
func hostsOf(own *config.EspalierSelfManagedWebhooks, namespace string) ([]string, error) {
	if own.URL == "" {
		return certificates.ServiceHosts(namespace, own.ServiceName), nil
	}
	parsed, err := url.Parse(own.URL)
	if err != nil {
		return nil, fmt.Errorf("espalier.webhooks.selfManaged.url: %w", err)
	}
	return []string{parsed.Hostname()}, nil
}
