package certificates

import (
	"cmp"
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"net/http"
	"os"
	"sync"
	"time"

	"github.com/go-logr/logr"
	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/promauto"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/util/uuid"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/leaderelection/resourcelock"
	"k8s.io/utils/clock"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/manager"
)

// DefaultSettle is how long a bundle must have been in every configuration before a certificate of its newest authority
// is served. API servers learn of a configuration by a watch, which takes milliseconds.
const DefaultSettle = 10 * time.Second

// Connection defines how a cluster is reached. HTTPClient is required. No cache is used: the Keeper reads few objects, by name, and live.
type Connection struct {
	Config     *rest.Config
	HTTPClient *http.Client
}

// Lease contains the times of leader election. The zero value means 15, 10 and 2 seconds.
type Lease struct{ Duration, RenewDeadline, RetryPeriod time.Duration }

// Options define which certificates are kept, and for which servers.
type Options struct {
	// Own is the cluster that contains the Secret and the Lease. Called is the cluster whose API servers call the webhooks; it contains the
	// webhook configurations.
	Own, Called Connection
	// Namespace and SecretName name the Secret that stores authority and certificate.
	Namespace, SecretName string
	// FieldManager is the name of this client in managedFields.
	FieldManager string
	// Lease contains the times of the Lease, which decides which replica may write. The Lease has the name of the Secret.
	Lease Lease
	// Hosts are the DNS names and IP addresses of the certificate. See ServiceHosts.
	Hosts []string
	// AuthorityValidity and CertificateValidity are the validities of new authorities and certificates; each is replaced after two
	// thirds of its validity. A certificate never outlives its authority.
	AuthorityValidity, CertificateValidity time.Duration
	// Settle is how long a bundle must have been in every configuration before a certificate of its newest authority is
	// served; 0 for DefaultSettle. It is never longer than a sixth of AuthorityValidity.
	Settle time.Duration
	// Configurations returns the Mutating- and ValidatingWebhookConfigurations that trust a bundle, without writing to it. Each has its
	// apiVersion and kind. Names and number must not depend on the bundle. The Keeper removes webhooks that are not in the returned lists,
	// also webhooks of other clients. If a returned configuration has no webhooks, the Keeper empties it in the cluster if it exists there,
	// and does not create it.
	Configurations func(caBundle []byte) []client.Object
	// Reachable returns nil if API servers can reach a server whose certificate the bundle verifies; see Dial. The Keeper calls it before a
	// configuration gets its first webhooks, which would refuse all matching requests while no server answers. After an error, the Keeper
	// calls it again every second, and the configuration waits. A configuration that has webhooks is written without the call. Nil: always
	// reachable.
	Reachable func(ctx context.Context, caBundle []byte) error
	// Clock measures validity.
	Clock clock.Clock
	// Log receives every change.
	Log logr.Logger
	// Registry receives the metrics; nil for no metrics.
	Registry prometheus.Registerer
}

// Keeper keeps the certificate of a webhook server, and the configurations that make API servers trust it. Add it to a manager, and
// configure the server to use its GetCertificate.
type Keeper struct {
	options Options
	rules   rules
	own     client.WithWatch
	called  client.WithWatch
	lock    resourcelock.Interface
	// expiry contains the expiry times of the authority and the certificate in use.
	expiry *prometheus.GaugeVec

	// known holds the states that can be served: the readable contents of the Secret, the newest first.
	known memory
	// changed receives a value when the Secret or a configuration may have changed.
	changed chan struct{}

	// leading is locked while this replica runs the loop that writes.
	leading sync.Mutex
	// distributed records since when every configuration contains the bundle; leading protects it.
	distributed distribution
}

var (
	_ manager.Runnable               = (*Keeper)(nil)
	_ manager.LeaderElectionRunnable = (*Keeper)(nil)
)

// New returns a Keeper that has not started. It sends no request. It is an error if a connection has no HTTP client.
func New(options Options) (*Keeper, error) {
	if options.Own.HTTPClient == nil {
		return nil, errors.New("keep webhook certificates: the connection to the own cluster has no HTTP client")
	}
	if options.Called.HTTPClient == nil {
		return nil, errors.New("keep webhook certificates: the connection to the called cluster has no HTTP client")
	}
	options.Settle = min(cmp.Or(options.Settle, DefaultSettle), options.AuthorityValidity/6)
	options.Lease = cmp.Or(options.Lease, Lease{Duration: 15 * time.Second, RenewDeadline: 10 * time.Second, RetryPeriod: 2 * time.Second})
	host, err := os.Hostname()
	if err != nil {
		return nil, fmt.Errorf("keep webhook certificates: find name of this host: %w", err)
	}
	own, err := newClient(options.Own)
	if err != nil {
		return nil, fmt.Errorf("create client for the Secret of webhook certificates: %w", err)
	}
	called, err := newClient(options.Called)
	if err != nil {
		return nil, fmt.Errorf("create client for webhook configurations: %w", err)
	}
	lock, err := newLock(options, host+"_"+string(uuid.NewUUID()))
	if err != nil {
		return nil, fmt.Errorf("create lease of webhook certificates: %w", err)
	}
	return &Keeper{
		options: options,
		rules: rules{
			name: options.SecretName, hosts: options.Hosts,
			authority: options.AuthorityValidity, certificate: options.CertificateValidity, settle: options.Settle,
		},
		own: own, called: called, lock: lock,
		// Only binaries that manage their own certificate have this metric.
		expiry: promauto.With(options.Registry).NewGaugeVec(prometheus.GaugeOpts{
			Name: "espalier_webhook_certificate_expiry_seconds",
			Help: "Expiry of the authority and the certificate that this replica serves with, in seconds since 1970, by part.",
		}, []string{"part"}),
		changed: make(chan struct{}, 1),
	}, nil
}

// GetCertificate returns the certificate to serve: the newest one that is valid. It returns an error if no certificate is valid, or if the
// process has not read the Secret yet.
func (k *Keeper) GetCertificate(*tls.ClientHelloInfo) (*tls.Certificate, error) {
	now := k.options.Clock.Now()
	newest := k.known.newest()
	if newest == nil {
		return nil, fmt.Errorf("there is no certificate in Secret %s/%s yet", k.options.Namespace, k.options.SecretName)
	}
	if !valid(newest.serving.certificate, now) {
		k.signal() // The clock was changed; no watch wakes the loop.
	}
	if s := k.known.servable(now); s != nil {
		return s.serving.forTLS(), nil
	}
	return nil, fmt.Errorf("the certificate in Secret %s/%s is not valid now, but from %s to %s", k.options.Namespace, k.options.SecretName,
		newest.serving.certificate.NotBefore.Format(time.RFC3339), newest.serving.certificate.NotAfter.Format(time.RFC3339))
}

// NeedLeaderElection returns false: every replica reads the Secret. The Lease of the Keeper decides which replica writes.
func (*Keeper) NeedLeaderElection() bool { return false }

// Start watches the Secret, whose certificate GetCertificate returns, until the context ends. While this replica has the Lease, Start also
// keeps the Secret and the configurations.
func (k *Keeper) Start(ctx context.Context) error {
	ctx = logr.NewContext(ctx, k.options.Log)
	var running sync.WaitGroup
	defer running.Wait()
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	running.Go(func() { k.watchSecret(ctx) })
	return k.elect(ctx)
}

// adoptFirst serves the content of the Secret if this process has not adopted any state yet, so that the process need not wait for the
// watch. Later only the watch adopts states, because the watch never returns to an older state.
func (k *Keeper) adoptFirst(s *state) {
	if k.known.newest() == nil {
		k.adopt(s)
	}
}

// adopt makes a state of the Secret the newest one, and records when its certificates expire.
func (k *Keeper) adopt(s *state) {
	before := k.known.add(s)
	k.expiry.WithLabelValues("authority").Set(float64(s.authority.certificate.NotAfter.Unix()))
	k.expiry.WithLabelValues("certificate").Set(float64(s.serving.certificate.NotAfter.Unix()))
	if before == nil || !before.serving.certificate.Equal(s.serving.certificate) {
		k.options.Log.Info("Serving with a certificate", "serial", s.serving.certificate.SerialNumber.Text(16), "expires",
			s.serving.certificate.NotAfter)
	}
}

// read makes the content of the Secret the newest state if the content can be decoded. If not, the server continues with earlier states.
func (k *Keeper) read(secret *corev1.Secret) {
	s, err := decode(secret)
	if err != nil {
		k.options.Log.Error(err, "Secret of webhook certificates is not used")
		return
	}
	k.adopt(s)
}

// signal wakes the loop, if it runs in this replica.
func (k *Keeper) signal() {
	select {
	case k.changed <- struct{}{}:
	default: // It was signalled already.
	}
}

// ServiceHosts returns the DNS names by which clients reach a Service.
func ServiceHosts(namespace, name string) []string {
	host := name + "." + namespace + ".svc"
	return []string{host, host + ".cluster.local"}
}
