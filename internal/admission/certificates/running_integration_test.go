package certificates_test

import (
	"bytes"
	"context"
	"crypto/tls"
	"crypto/x509"
	"encoding/pem"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/go-logr/logr"
	"github.com/go-logr/logr/funcr"
	. "github.com/onsi/gomega"
	"github.com/prometheus/client_golang/prometheus"
	admissionregistrationv1 "k8s.io/api/admissionregistration/v1"
	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/rest"
	"k8s.io/utils/clock"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/espalier-dev/espalier/internal/admission/certificates"
	"github.com/espalier-dev/espalier/internal/admission/serving"
	"github.com/espalier-dev/espalier/test/binary"
)

// installation holds the options and clients that the replicas of one server share.
type installation struct {
	t       *testing.T
	admin   client.Client
	options certificates.Options
}

// install creates a namespace and defines how certificates are kept in it, with validities of some seconds.
func install(t *testing.T) *installation {
	t.Helper()
	g := NewWithT(t)
	servers := binary.Servers(t)
	connection := connect(t, servers.Target.Config)
	admin, err := client.New(servers.Target.Config, client.Options{})
	g.Expect(err).NotTo(HaveOccurred())
	namespace := &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{GenerateName: "rotation-"}}
	g.Expect(admin.Create(t.Context(), namespace)).To(Succeed())
	i := &installation{t: t, admin: admin}
	name := namespace.Name
	t.Cleanup(func() {
		ctx := context.WithoutCancel(t.Context())
		_ = admin.Delete(ctx, configuration(name, nil))
		_ = admin.Delete(ctx, namespace)
	})
	i.options = certificates.Options{
		Own: connection, Called: connection, Namespace: name, SecretName: name, FieldManager: "espalier-hooks",
		Lease:             certificates.Lease{Duration: 3 * time.Second, RenewDeadline: 2 * time.Second, RetryPeriod: 100 * time.Millisecond},
		Hosts:             []string{"hooks.garden.svc"},
		AuthorityValidity: 12 * time.Second, CertificateValidity: 6 * time.Second, Settle: 300 * time.Millisecond,
		Configurations: func(bundle []byte) []client.Object { return []client.Object{configuration(name, bundle)} },
		Clock:          clock.RealClock{}, Log: logr.Discard(),
	}
	return i
}

func connect(t *testing.T, cfg *rest.Config) certificates.Connection {
	t.Helper()
	httpClient, err := rest.HTTPClientFor(cfg)
	NewWithT(t).Expect(err).NotTo(HaveOccurred())
	return certificates.Connection{Config: cfg, HTTPClient: httpClient}
}

func configuration(name string, bundle []byte) *admissionregistrationv1.MutatingWebhookConfiguration {
	return &admissionregistrationv1.MutatingWebhookConfiguration{
		TypeMeta:   metav1.TypeMeta{APIVersion: "admissionregistration.k8s.io/v1", Kind: "MutatingWebhookConfiguration"},
		ObjectMeta: metav1.ObjectMeta{Name: name},
		Webhooks: []admissionregistrationv1.MutatingWebhook{{
			Name:         "hook.example.com",
			ClientConfig: admissionregistrationv1.WebhookClientConfig{URL: ptr.To("https://hooks.garden.svc/hook"), CABundle: bundle},
			Rules: []admissionregistrationv1.RuleWithOperations{{
				Operations: []admissionregistrationv1.OperationType{admissionregistrationv1.Create},
				Rule: admissionregistrationv1.Rule{
					APIGroups: []string{"trees.example.com"}, APIVersions: []string{"v1"}, Resources: []string{"bonsais"},
				},
			}},
			SideEffects: ptr.To(admissionregistrationv1.SideEffectClassNone), AdmissionReviewVersions: []string{"v1"},
		}},
	}
}

// replica is a webhook server and the Keeper of its certificate.
type replica struct {
	server *serving.Server
	keeper *certificates.Keeper
	stop   func()
}

func (i *installation) run(modify ...func(*certificates.Options)) *replica {
	i.t.Helper()
	g := NewWithT(i.t)
	options := i.options
	for _, change := range modify {
		change(&options)
	}
	keeper, err := certificates.New(options)
	g.Expect(err).NotTo(HaveOccurred())
	server := serving.New(serving.Options{BindAddress: "127.0.0.1", Clock: clock.RealClock{}, Log: logr.Discard()})
	server.GetCertificate = keeper.GetCertificate
	server.Register("/hook", http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { fmt.Fprint(w, "seen") }))
	ctx, cancel := context.WithCancel(i.t.Context())
	var running sync.WaitGroup
	errs := make(chan error, 2)
	running.Go(func() { errs <- keeper.Start(ctx) })
	running.Go(func() { errs <- server.Start(ctx) })
	r := &replica{server: server, keeper: keeper}
	r.stop = sync.OnceFunc(func() {
		cancel()
		running.Wait()
		g.Expect(<-errs).To(Succeed())
		g.Expect(<-errs).To(Succeed())
	})
	i.t.Cleanup(r.stop)
	g.Eventually(func() error { return server.StartedChecker()(i.probe()) }).WithTimeout(30 * time.Second).Should(Succeed())
	return r
}

func (i *installation) probe() *http.Request {
	request, err := http.NewRequestWithContext(i.t.Context(), http.MethodGet, "/readyz", http.NoBody)
	NewWithT(i.t).Expect(err).NotTo(HaveOccurred())
	return request
}

// bundle returns the CA bundle of the mutating configuration, which API servers trust.
func (i *installation) bundle(ctx context.Context) ([]byte, error) {
	live := &admissionregistrationv1.MutatingWebhookConfiguration{}
	if err := i.admin.Get(ctx, client.ObjectKey{Name: i.options.SecretName}, live); err != nil {
		return nil, err
	}
	if len(live.Webhooks) == 0 {
		return nil, errors.New("the configuration is not complete")
	}
	return live.Webhooks[0].ClientConfig.CABundle, nil
}

// apiServer calls webhooks as API servers do: it trusts only the bundle of the configuration that it has read last, and opens new
// connections when the bundle changes.
type apiServer struct {
	installation *installation
	port         int
	// bundle is the bundle that listen read last.
	bundle atomic.Pointer[[]byte]
	// issuers counts the authorities whose certificates were served; mu protects it and serials.
	mu      sync.Mutex
	issuers map[string]bool
	serials map[string]bool
}

// listen reads the configuration every 50 milliseconds, so that it notices changes a little late.
func (a *apiServer) listen(ctx context.Context) {
	for ctx.Err() == nil {
		if bundle, err := a.installation.bundle(ctx); err == nil {
			a.bundle.Store(&bundle)
		}
		select {
		case <-ctx.Done():
		case <-time.After(50 * time.Millisecond):
		}
	}
}

// seen returns how many different authorities and certificates the servers have used.
func (a *apiServer) seen() (issuers, serials int) {
	a.mu.Lock()
	defer a.mu.Unlock()
	return len(a.issuers), len(a.serials)
}

// call sends one request on a new connection, or on the previous connection if nothing has changed.
func (a *apiServer) call(ctx context.Context, transport *http.Transport) error {
	request, err := http.NewRequestWithContext(ctx, http.MethodPost, "https://hooks.garden.svc/hook", strings.NewReader("{}"))
	if err != nil {
		return err
	}
	response, err := (&http.Client{Transport: transport}).Do(request)
	if err != nil {
		return err
	}
	defer response.Body.Close()
	body, err := io.ReadAll(response.Body)
	if err != nil {
		return err
	}
	if string(body) != "seen" {
		return fmt.Errorf("answer %d %q", response.StatusCode, body)
	}
	shown := response.TLS.PeerCertificates[0]
	a.mu.Lock()
	defer a.mu.Unlock()
	a.issuers[shown.Issuer.CommonName] = true
	a.serials[shown.SerialNumber.String()] = true
	return nil
}

func (a *apiServer) transport(bundle []byte, keepAlive bool) *http.Transport {
	roots := x509.NewCertPool()
	roots.AppendCertsFromPEM(bundle)
	return &http.Transport{
		TLSClientConfig: &tls.Config{RootCAs: roots}, DisableKeepAlives: !keepAlive,
		DialContext: func(ctx context.Context, network, _ string) (net.Conn, error) {
			return (&net.Dialer{}).DialContext(ctx, network, net.JoinHostPort("127.0.0.1", strconv.Itoa(a.port)))
		},
	}
}

// load sends requests until the context ends, and returns their number and the errors.
func (a *apiServer) load(ctx context.Context, keepAlive bool) (requests int, failures []string) {
	used := a.bundle.Load()
	transport := a.transport(*used, keepAlive)
	for ctx.Err() == nil {
		if heard := a.bundle.Load(); !bytes.Equal(*heard, *used) {
			transport.CloseIdleConnections()
			used, transport = heard, a.transport(*heard, keepAlive)
		}
		requests++
		if err := a.call(context.WithoutCancel(ctx), transport); err != nil {
			failures = append(failures, fmt.Sprintf("request %d: %v", requests, err))
		}
		select {
		case <-ctx.Done():
		case <-time.After(50 * time.Millisecond):
		}
	}
	transport.CloseIdleConnections()
	return requests, failures
}

// TestRotationUnderLoad rotates certificates every twenty seconds, and authorities every forty seconds. A certificate in use stays valid
// for ten seconds more, and API servers have eight seconds to read a bundle, also on a busy machine.
func TestRotationUnderLoad(t *testing.T) {
	g, i := NewWithT(t), install(t)
	registry := prometheus.NewRegistry()
	i.options.AuthorityValidity, i.options.CertificateValidity, i.options.Settle = time.Minute, 30*time.Second, 8*time.Second
	replicas := []*replica{i.run(func(o *certificates.Options) { o.Registry = registry }), i.run()}
	var first []byte
	g.Eventually(func() (err error) { first, err = i.bundle(t.Context()); return err }).WithTimeout(30 * time.Second).Should(Succeed())

	heard, stopHearing := context.WithCancel(t.Context())
	defer stopHearing()
	loaded, stopLoad := context.WithTimeout(t.Context(), 5*time.Minute)
	defer stopLoad()
	var servers []*apiServer
	var running, hearing sync.WaitGroup
	var mu sync.Mutex
	total, failures := 0, []string{}
	for _, r := range replicas {
		a := &apiServer{installation: i, port: r.server.Port(), issuers: map[string]bool{}, serials: map[string]bool{}}
		a.bundle.Store(&first)
		hearing.Go(func() { a.listen(heard) })
		servers = append(servers, a)
		for _, keepAlive := range []bool{true, false} {
			running.Go(func() {
				requests, failed := a.load(loaded, keepAlive)
				mu.Lock()
				defer mu.Unlock()
				total, failures = total+requests, append(failures, failed...)
			})
		}
	}
	g.Eventually(func(g Gomega) {
		for _, a := range servers {
			issuers, serials := a.seen()
			g.Expect(issuers).To(BeNumerically(">=", 3), "authorities were not replaced")
			g.Expect(serials).To(BeNumerically(">=", 5), "certificates were not replaced")
		}
	}).WithTimeout(4 * time.Minute).Should(Succeed())
	stopLoad()
	running.Wait()
	stopHearing()
	hearing.Wait()

	g.Expect(failures).To(BeEmpty())
	issuers, serials := servers[0].seen()
	t.Logf("%d requests to two replicas, %d authorities, %d certificates, no failure", total, issuers, serials)

	g.Eventually(func(g Gomega) {
		current, err := replicas[0].keeper.GetCertificate(nil)
		g.Expect(err).NotTo(HaveOccurred())
		expiry := gauges(g, registry, "espalier_webhook_certificate_expiry_seconds", "part")
		g.Expect(expiry).To(HaveKeyWithValue("certificate", float64(current.Leaf.NotAfter.Unix())))
		g.Expect(expiry).To(HaveKeyWithValue("authority", BeNumerically(">=", current.Leaf.NotAfter.Unix())))
	}).WithTimeout(30 * time.Second).Should(Succeed())
}

// gauges returns the values of a metric, by the values of one of its labels.
func gauges(g Gomega, registry prometheus.Gatherer, name, label string) map[string]float64 {
	families, err := registry.Gather()
	g.Expect(err).NotTo(HaveOccurred())
	values := map[string]float64{}
	for _, family := range families {
		for _, metric := range family.GetMetric() {
			for _, pair := range metric.GetLabel() {
				if family.GetName() == name && pair.GetName() == label {
					values[pair.GetValue()] = metric.GetGauge().GetValue()
				}
			}
		}
	}
	return values
}

// TestTheRightsThatItNeeds runs a replica as a ServiceAccount that has only the rights listed here.
func TestTheRightsThatItNeeds(t *testing.T) {
	g, i := NewWithT(t), install(t)
	name := i.options.SecretName
	subject := rbacv1.Subject{Kind: "User", APIGroup: "rbac.authorization.k8s.io", Name: "keeper-of-" + name}
	rule := func(group, resource string, names []string, verbs ...string) rbacv1.PolicyRule {
		return rbacv1.PolicyRule{APIGroups: []string{group}, Resources: []string{resource}, ResourceNames: names, Verbs: verbs}
	}
	own := metav1.ObjectMeta{Namespace: name, Name: name}
	objects := []client.Object{
		&rbacv1.Role{ObjectMeta: own, Rules: []rbacv1.PolicyRule{
			rule("", "secrets", nil, "create"),
			rule("", "secrets", []string{name}, "get", "list", "watch", "update"),
			rule("coordination.k8s.io", "leases", nil, "create"),
			rule("coordination.k8s.io", "leases", []string{name}, "get", "update"),
		}},
		&rbacv1.RoleBinding{
			ObjectMeta: own, Subjects: []rbacv1.Subject{subject},
			RoleRef: rbacv1.RoleRef{APIGroup: "rbac.authorization.k8s.io", Kind: "Role", Name: name},
		},
		&rbacv1.ClusterRole{ObjectMeta: metav1.ObjectMeta{Name: name}, Rules: []rbacv1.PolicyRule{
			rule("admissionregistration.k8s.io", "mutatingwebhookconfigurations", nil, "create"),
			rule("admissionregistration.k8s.io", "mutatingwebhookconfigurations", []string{name}, "get", "list", "watch", "patch"),
		}},
		&rbacv1.ClusterRoleBinding{
			ObjectMeta: metav1.ObjectMeta{Name: name}, Subjects: []rbacv1.Subject{subject},
			RoleRef: rbacv1.RoleRef{APIGroup: "rbac.authorization.k8s.io", Kind: "ClusterRole", Name: name},
		},
	}
	for _, object := range objects {
		g.Expect(i.admin.Create(t.Context(), object)).To(Succeed())
		t.Cleanup(func() { _ = i.admin.Delete(context.WithoutCancel(t.Context()), object) })
	}
	servers := binary.Servers(t)
	restricted, err := servers.Target.UserConfig(subject.Name)
	g.Expect(err).NotTo(HaveOccurred())
	awaitRights(g, i, restricted)
	var log lockedBuffer
	i.run(func(o *certificates.Options) {
		o.Own, o.Called = connect(t, restricted), connect(t, restricted)
		o.Log = funcr.New(func(_, args string) { fmt.Fprintln(&log, args) }, funcr.Options{})
	})

	g.Eventually(log.String).WithTimeout(3*time.Minute).Should(ContainSubstring(`"change"="forget"`), "a whole rotation")
	live := &admissionregistrationv1.MutatingWebhookConfiguration{}
	g.Eventually(func() error { // the next rotation may write at the same moment
		if err := i.admin.Get(t.Context(), client.ObjectKey{Name: name}, live); err != nil {
			return err
		}
		live.Webhooks = append(live.Webhooks, *live.Webhooks[0].DeepCopy())
		live.Webhooks[1].Name = "foreign.example.com"
		return i.admin.Update(t.Context(), live)
	}).WithTimeout(30 * time.Second).Should(Succeed())
	g.Eventually(func(g Gomega) {
		g.Expect(i.admin.Get(t.Context(), client.ObjectKey{Name: name}, live)).To(Succeed())
		g.Expect(live.Webhooks).To(HaveLen(1))
	}).WithTimeout(30 * time.Second).Should(Succeed())
	g.Expect(log.String()).NotTo(ContainSubstring("forbidden"))
}

// awaitRights waits until the API server knows the roles. It learns of them by watches, and forbids every request before.
func awaitRights(g Gomega, i *installation, as *rest.Config) {
	c, err := client.New(as, client.Options{})
	g.Expect(err).NotTo(HaveOccurred())
	key := client.ObjectKey{Namespace: i.options.Namespace, Name: i.options.SecretName}
	for _, object := range []client.Object{&corev1.Secret{}, &admissionregistrationv1.MutatingWebhookConfiguration{}} {
		g.Eventually(func() error { return client.IgnoreNotFound(c.Get(i.t.Context(), key, object)) }).WithTimeout(30 * time.Second).
			Should(Succeed())
	}
}

// lockedBuffer collects log lines of several goroutines.
type lockedBuffer struct {
	mu     sync.Mutex
	buffer strings.Builder
}

func (b *lockedBuffer) Write(p []byte) (int, error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.buffer.Write(p)
}

func (b *lockedBuffer) String() string {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.buffer.String()
}

// stored returns the serial number of the certificate in the Secret.
func (i *installation) stored(g Gomega) string {
	secret := &corev1.Secret{}
	g.Expect(i.admin.Get(i.t.Context(), client.ObjectKey{Namespace: i.options.Namespace, Name: i.options.SecretName}, secret)).To(Succeed())
	block, _ := pem.Decode(secret.Data["tls.crt"])
	g.Expect(block).NotTo(BeNil())
	certificate, err := x509.ParseCertificate(block.Bytes)
	g.Expect(err).NotTo(HaveOccurred())
	return certificate.SerialNumber.String()
}

// TestReplicasTakeTurns stops the replica that writes: the other one takes over, and notices changes to its objects.
func TestReplicasTakeTurns(t *testing.T) {
	g, i := NewWithT(t), install(t)
	one, two := i.run(), i.run()
	shown := func(r *replica) (string, error) { // fails between the end of a certificate and the next one
		certificate, err := r.keeper.GetCertificate(nil)
		if err != nil {
			return "", err
		}
		return certificate.Leaf.SerialNumber.String(), nil
	}
	g.Eventually(func(g Gomega) { // retried, because the first replica may just have renewed it
		own, err := shown(one)
		g.Expect(err).NotTo(HaveOccurred())
		g.Expect(shown(two)).To(Equal(own))
	}).WithTimeout(30*time.Second).Should(Succeed(), "both serve what the first has made")

	one.stop()
	before := i.stored(g)
	g.Eventually(func() string { return i.stored(g) }).WithTimeout(30*time.Second).
		ShouldNot(Equal(before), "no replica took over")
	g.Eventually(func(g Gomega) { g.Expect(shown(two)).To(Equal(i.stored(g))) }).WithTimeout(30 * time.Second).Should(Succeed())

	live := configuration(i.options.SecretName, nil)
	g.Expect(i.admin.Delete(t.Context(), live)).To(Succeed())
	g.Eventually(func() error { _, err := i.bundle(t.Context()); return err }).WithTimeout(30 * time.Second).Should(Succeed())

	secret := &corev1.Secret{ObjectMeta: metav1.ObjectMeta{Namespace: i.options.Namespace, Name: i.options.SecretName}}
	g.Expect(i.admin.Delete(t.Context(), secret)).To(Succeed())
	g.Eventually(func() error { return i.admin.Get(t.Context(), client.ObjectKeyFromObject(secret), secret) }).WithTimeout(30 * time.Second).
		Should(Succeed())
}
