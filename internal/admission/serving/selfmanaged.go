package serving

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"net"
	"net/url"
	"os"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/go-logr/logr"
	"github.com/prometheus/client_golang/prometheus"
	"k8s.io/client-go/rest"
	"k8s.io/utils/clock"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/espalier-dev/espalier/internal/admission/certificates"
	"github.com/espalier-dev/espalier/internal/admission/registration"
	"github.com/espalier-dev/espalier/internal/config"
	"github.com/espalier-dev/espalier/internal/process"
)

// SelfManaged contains the settings with which a server keeps its own certificate and webhook configurations, without another component.
type SelfManaged struct {
	// Clusters are the clusters of the process: the source contains the Secret and the Lease, the target the webhook configurations.
	Clusters *process.Clusters
	// Settings define names, validities and how API servers reach the server; defaulted and validated.
	Settings *config.EspalierSelfManagedWebhooks
	// SettingsPath is the path of these settings in the configuration file, for error messages.
	SettingsPath string
	// Configurations returns the function that builds the configurations for a bundle; see certificates.Options. The field Namespace of the
	// argument reached is empty if the Service of the server is in another cluster than the configurations.
	Configurations func(reached registration.Server) func(caBundle []byte) []client.Object
	// Registry receives the metrics; nil for no metrics.
	Registry prometheus.Registerer
}

// KeepCertificate makes the server serve a certificate of its own making, and keeps the webhook configurations. Call it before the manager
// starts. KeepCertificate fails, for instance, if the process does not know its namespace, or if no URL is set and the process does not
// know that source and target are one cluster: then API servers may have no way to the Service of the server. Package certificates
// describes the state after a crash between two writes.
func (s *Server) KeepCertificate(o SelfManaged) error {
	clusters, own := o.Clusters, o.Settings
	if clusters.OwnNamespace == "" {
		return fmt.Errorf("%s: the namespace of this process is not known; set the environment variable POD_NAMESPACE", o.SettingsPath)
	}
	if same, known := clusters.Same.Answer(); own.URL == "" && (!same || !known) {
		return fmt.Errorf("%[1]s: the API server of the target cannot reach a Service of the source; set %[1]s.url", o.SettingsPath)
	}
	hosts, outside, err := addresses(own, clusters.OwnNamespace, os.Getenv)
	if err != nil {
		return fmt.Errorf("%s.url: %w", o.SettingsPath, err)
	}
	unlimited := rest.CopyConfig(clusters.Source.GetConfig()) // writes to the Lease must not wait behind other requests
	unlimited.QPS, unlimited.RateLimiter = -1, nil
	log := clusters.Source.GetLogger().WithName("certificates")
	reached := &reachable{server: s, serverName: hosts[0], outside: outside, clock: clusters.Clock, log: log}
	keeper, err := certificates.New(certificates.Options{
		Own:       certificates.Connection{Config: unlimited, HTTPClient: clusters.Source.GetHTTPClient()},
		Called:    certificates.Connection{Config: clusters.TargetConfig, HTTPClient: clusters.TargetHTTPClient},
		Namespace: clusters.OwnNamespace, SecretName: own.SecretName, FieldManager: clusters.FieldManager, Hosts: hosts,
		AuthorityValidity: own.AuthorityValidity.Duration, CertificateValidity: own.CertificateValidity.Duration,
		Configurations: o.Configurations(registration.Server{
			Name: own.ConfigurationName, Namespace: serviceNamespace(clusters), ServiceName: own.ServiceName, URL: own.URL,
		}),
		Reachable: reached.check, Clock: clusters.Clock, Log: log, Registry: o.Registry,
	})
	if err != nil {
		return fmt.Errorf("keep certificates: %w", err)
	}
	s.GetCertificate = keeper.GetCertificate
	if err := clusters.Source.Add(keeper); err != nil {
		return fmt.Errorf("keep certificates: %w", err)
	}
	return nil
}

// serviceNamespace returns the namespace of the Service for SelfManaged.Configurations; empty if source and target are two clusters. If
// the process does not know whether they are one cluster, serviceNamespace returns the namespace, so that the webhooks exclude it: if
// webhooks that fail closed applied to the namespace, they could prevent the start of the Pods that serve them.
func serviceNamespace(clusters *process.Clusters) string {
	if same, known := clusters.Same.Answer(); known && !same {
		return ""
	}
	return clusters.OwnNamespace
}

// addresses returns the hosts of the certificate, and the address that API servers connect to. API servers find a Service without DNS.
// This process also finds the Service without DNS if the Service existed when the Pod of the process started: then an environment variable
// contains the cluster IP.
func addresses(
	own *config.EspalierSelfManagedWebhooks, namespace string, getenv func(string) string,
) (hosts []string, outside string, err error) {
	const https = "443"
	if own.URL == "" {
		hosts = certificates.ServiceHosts(namespace, own.ServiceName)
		address := getenv(strings.ToUpper(strings.ReplaceAll(own.ServiceName, "-", "_")) + "_SERVICE_HOST")
		return hosts, net.JoinHostPort(cmp.Or(address, hosts[0]), https), nil
	}
	parsed, err := url.Parse(own.URL)
	if err != nil {
		return nil, "", fmt.Errorf("parse URL: %w", err)
	}
	if parsed.Hostname() == "" {
		return nil, "", errors.New("it has no host")
	}
	if parsed.Port() == "" {
		return []string{parsed.Hostname()}, net.JoinHostPort(parsed.Hostname(), https), nil
	}
	return []string{parsed.Hostname()}, parsed.Host, nil
}

// outsidePatience is how long the registration of webhooks waits if this process cannot reach itself by its Service or URL. After that,
// webhooks are registered anyway, because network policies may forbid this connection.
const outsidePatience = time.Minute

// reachable checks whether API servers will reach the server: the server must answer at its own port and, unless outsidePatience is over,
// by its Service or URL.
type reachable struct {
	server *Server
	// serverName is the name in the certificate; outside is the address that API servers connect to.
	serverName, outside string
	clock               clock.PassiveClock
	log                 logr.Logger

	mu sync.Mutex
	// since is the time of the first check in which the server answered at its own port, but not at the address in the field outside; zero if
	// there was no such check.
	since time.Time
}

// check implements certificates.Options.Reachable.
func (r *reachable) check(ctx context.Context, bundle []byte) error {
	port := r.server.Port()
	if port == 0 {
		return errors.New("the server has not been started yet")
	}
	host := cmp.Or(r.server.options.BindAddress, "localhost")
	if err := certificates.Dial(ctx, net.JoinHostPort(host, strconv.Itoa(port)), r.serverName, bundle); err != nil {
		return err
	}
	err := certificates.Dial(ctx, r.outside, r.serverName, bundle)
	if err == nil {
		return nil
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.since.IsZero() {
		r.since = r.clock.Now()
	}
	if waited := r.clock.Since(r.since); waited < outsidePatience {
		return err
	}
	r.log.Info("Registering webhooks although this process cannot reach its own webhook address", "address", r.outside, "reason",
		err.Error())
	return nil
}
