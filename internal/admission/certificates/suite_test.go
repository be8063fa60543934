package certificates

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"os"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/go-logr/logr"
	"github.com/go-logr/logr/funcr"
	. "github.com/onsi/gomega"
	admissionregistrationv1 "k8s.io/api/admissionregistration/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/rest"
	clocktesting "k8s.io/utils/clock/testing"
	"sigs.k8s.io/controller-runtime/pkg/client"
	ctrllog "sigs.k8s.io/controller-runtime/pkg/log"

	"github.com/espalier-dev/espalier/test/local"
)

func TestMain(m *testing.M) {
	ctrllog.SetLogger(logr.Discard())
	os.Exit(m.Run())
}

// world is an API server with a namespace, and object names that only one test uses.
type world struct {
	t         *testing.T
	config    *rest.Config
	admin     client.WithWatch
	namespace string
	// name is the name of the Secret and of both configurations.
	name  string
	clock *clocktesting.FakeClock
	log   *lockedBuffer
	// enabled are the names of the webhooks that each configuration declares.
	enabled []string
}

func newWorld(t *testing.T) *world {
	t.Helper()
	if testing.Short() {
		t.Skip("needs an API server")
	}
	g := NewWithT(t)
	servers, err := local.ForTests()
	g.Expect(err).NotTo(HaveOccurred())
	w := &world{
		t: t, config: servers.Target.Config, clock: clocktesting.NewFakeClock(start), log: &lockedBuffer{}, enabled: []string{"a", "b"},
	}
	w.admin, err = newClient(w.connect(w.config))
	g.Expect(err).NotTo(HaveOccurred())
	full, err := client.New(w.config, client.Options{})
	g.Expect(err).NotTo(HaveOccurred())
	namespace := &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{GenerateName: "certificates-"}}
	g.Expect(full.Create(t.Context(), namespace)).To(Succeed())
	w.namespace, w.name = namespace.Name, namespace.Name
	t.Cleanup(func() {
		ctx := context.WithoutCancel(t.Context())
		for _, object := range w.wanted(nil) {
			_ = full.Delete(ctx, object)
		}
		_ = full.Delete(ctx, namespace)
		if t.Failed() {
			t.Logf("log:\n%s", w.log)
		}
	})
	return w
}

func (w *world) wanted(bundle []byte) []client.Object {
	return []client.Object{mutating(w.name, bundle, w.enabled...), validating(w.name, bundle, w.enabled...)}
}

func (w *world) connect(cfg *rest.Config) Connection {
	w.t.Helper()
	httpClient, err := rest.HTTPClientFor(cfg)
	NewWithT(w.t).Expect(err).NotTo(HaveOccurred())
	return Connection{Config: cfg, HTTPClient: httpClient}
}

// options returns the options of a Keeper in this world, with the validities of the rules yearly.
func (w *world) options() Options {
	r := yearly()
	return Options{
		Own: w.connect(w.config), Called: w.connect(w.config),
		Namespace: w.namespace, SecretName: w.name, FieldManager: "espalier-hooks", Hosts: r.hosts,
		AuthorityValidity: r.authority, CertificateValidity: r.certificate, Settle: r.settle,
		Configurations: w.wanted, Clock: w.clock, Log: w.logger(),
	}
}

func (w *world) logger() logr.Logger {
	return funcr.New(func(_, args string) { fmt.Fprintln(w.log, args) }, funcr.Options{Verbosity: 1})
}

// keeper returns the Keeper of a process that has just started. Its requests go through the wire, if there is one.
func (w *world) keeper(wire *wire, modify ...func(*Options)) *Keeper {
	w.t.Helper()
	options := w.options()
	if wire != nil {
		cut := rest.CopyConfig(w.config)
		cut.Wrap(func(next http.RoundTripper) http.RoundTripper { wire.next = next; return wire })
		options.Own, options.Called = w.connect(cut), w.connect(cut)
	}
	for _, change := range modify {
		change(&options)
	}
	k, err := New(options)
	NewWithT(w.t).Expect(err).NotTo(HaveOccurred())
	return k
}

// work makes a Keeper write the changes that are due, and returns the time until the next change.
func (w *world) work(k *Keeper) time.Duration {
	w.t.Helper()
	look, err := k.step(w.t.Context())
	NewWithT(w.t).Expect(err).NotTo(HaveOccurred())
	return look
}

// secret returns the Secret and its decoded state.
func (w *world) secret() (*corev1.Secret, *state) {
	w.t.Helper()
	g := NewWithT(w.t)
	secret := &corev1.Secret{}
	g.Expect(w.admin.Get(w.t.Context(), client.ObjectKey{Namespace: w.namespace, Name: w.name}, secret)).To(Succeed())
	s, err := decode(secret)
	g.Expect(err).NotTo(HaveOccurred())
	return secret, s
}

// bundles returns the distinct CA bundles of all webhooks of both configurations.
func (w *world) bundles() []string {
	w.t.Helper()
	var all []string
	m, v := w.configurations()
	for _, webhook := range m.Webhooks {
		all = append(all, string(webhook.ClientConfig.CABundle))
	}
	for _, webhook := range v.Webhooks {
		all = append(all, string(webhook.ClientConfig.CABundle))
	}
	return distinct(all)
}

// configurations returns both webhook configurations, empty if they do not exist.
func (w *world) configurations() (
	*admissionregistrationv1.MutatingWebhookConfiguration, *admissionregistrationv1.ValidatingWebhookConfiguration,
) {
	w.t.Helper()
	g := NewWithT(w.t)
	m, v := &admissionregistrationv1.MutatingWebhookConfiguration{}, &admissionregistrationv1.ValidatingWebhookConfiguration{}
	for _, object := range []client.Object{m, v} {
		g.Expect(client.IgnoreNotFound(w.admin.Get(w.t.Context(), client.ObjectKey{Name: w.name}, object))).To(Succeed())
	}
	return m, v
}

func distinct(all []string) []string {
	var once []string
	for _, each := range all {
		if len(once) == 0 || once[len(once)-1] != each {
			once = append(once, each)
		}
	}
	return once
}

// wire carries the requests of a process. It counts the writes, and breaks for ever at one of them.
type wire struct {
	next http.RoundTripper
	// breakAt is the number of the write at which the wire breaks; 0 for never. If after is true, this write still arrives.
	breakAt int
	after   bool
	// wrote is called after each successful write.
	wrote func()
	// pause is called before each request, if set.
	pause func()

	mu     sync.Mutex
	writes int
	broken bool
}

var errBroken = errors.New("the process is gone")

func (w *wire) RoundTrip(req *http.Request) (*http.Response, error) {
	if strings.Contains(req.URL.Path, "/leases") {
		return w.next.RoundTrip(req)
	}
	if w.pause != nil {
		w.pause()
	}
	w.mu.Lock()
	write := req.Method != http.MethodGet
	if write && !w.broken {
		w.writes++
	}
	breaks := w.breakAt > 0 && w.writes >= w.breakAt
	gone := w.broken
	w.broken = breaks
	w.mu.Unlock()
	if gone || breaks && !w.after {
		return nil, errBroken
	}
	response, err := w.next.RoundTrip(req)
	if err == nil && write && response.StatusCode < http.StatusBadRequest && w.wrote != nil {
		w.wrote()
	}
	if breaks && err == nil {
		_, _ = io.Copy(io.Discard, response.Body)
		_ = response.Body.Close()
		return nil, errBroken
	}
	return response, err
}

func (w *wire) count() int {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.writes
}

type lockedBuffer struct {
	mu     sync.Mutex
	buffer bytes.Buffer
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
