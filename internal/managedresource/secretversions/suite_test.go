package secretversions_test

import (
	"context"
	"fmt"
	"io"
	"net/http"
	"slices"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/go-logr/logr"
	. "github.com/onsi/gomega"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/metadata"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/util/workqueue"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"

	"github.com/espalier-dev/espalier/internal/managedresource/secretversions"
	"github.com/espalier-dev/espalier/internal/process"
	"github.com/espalier-dev/espalier/test/local"
)

// patience is how long tests wait for an event that takes milliseconds on an idle machine.
const patience = 30 * time.Second

// bench is a namespace of a real API server with a Tracker of its Secrets.
type bench struct {
	*WithT
	t         *testing.T
	ctx       context.Context // of the test
	admin     kubernetes.Interface
	config    *rest.Config
	namespace string
	// finalizer is used by no other test.
	finalizer string
	line      *line
	tracker   *secretversions.Tracker
	// changes and carriers are the queues of two controllers.
	changes, carriers *inbox
}

func newBench(t *testing.T) *bench {
	t.Helper()
	g := NewWithT(t)
	servers, err := local.ForTests()
	g.Expect(err).NotTo(HaveOccurred())
	admin, err := kubernetes.NewForConfig(servers.Source.Config)
	g.Expect(err).NotTo(HaveOccurred())
	b := &bench{WithT: g, t: t, ctx: t.Context(), admin: admin, config: servers.Source.Config, line: &line{}}
	b.namespace = b.newNamespace()
	b.finalizer = "example.org/" + b.namespace
	return b
}

func (b *bench) newNamespace() string {
	b.t.Helper()
	namespace, err := b.admin.CoreV1().Namespaces().
		Create(b.ctx, &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{GenerateName: "secretversions-"}}, metav1.CreateOptions{})
	b.Expect(err).NotTo(HaveOccurred())
	return namespace.Name
}

// prepare creates a Tracker that is not started, with two controllers that listen to it.
func (b *bench) prepare(namespaces ...string) *bench {
	b.t.Helper()
	config := rest.CopyConfig(b.config)
	config.Wrap(b.line.wrap)
	client, err := metadata.NewForConfig(config)
	b.Expect(err).NotTo(HaveOccurred())
	b.tracker = secretversions.New(secretversions.Options{Client: client, Namespaces: namespaces, Finalizer: b.finalizer, Log: logr.Discard()})
	b.changes, b.carriers = newInbox(), newInbox()
	same := func(_ context.Context, secret types.NamespacedName) []reconcile.Request {
		return []reconcile.Request{{NamespacedName: secret}}
	}
	b.Expect(b.tracker.Changes(same).Start(b.ctx, b.changes.queue)).To(Succeed())
	b.Expect(b.tracker.Carriers().Start(b.ctx, b.carriers.queue)).To(Succeed())
	return b
}

// start creates a Tracker that has listed the Secrets.
func (b *bench) start(namespaces ...string) *bench {
	b.t.Helper()
	b.prepare(namespaces...)
	go func() { _ = b.tracker.Start(b.ctx) }()
	b.Expect(b.tracker.Changes(nil).WaitForSync(b.ctx)).To(Succeed())
	return b
}

func (b *bench) key(name string) types.NamespacedName {
	return types.NamespacedName{Namespace: b.namespace, Name: name}
}

// use makes the set of that name a user of Secrets.
func (b *bench) use(set string, secrets ...string) { b.tracker.Use(b.key(set), secrets) }

func (b *bench) create(name string, finalizers ...string) secretversions.Version {
	b.t.Helper()
	created, err := b.admin.CoreV1().Secrets(b.namespace).Create(b.ctx,
		&corev1.Secret{ObjectMeta: metav1.ObjectMeta{Name: name, Finalizers: finalizers}}, metav1.CreateOptions{})
	b.Expect(err).NotTo(HaveOccurred())
	return secretversions.Version{UID: created.UID, ResourceVersion: created.ResourceVersion}
}

func (b *bench) patch(name, patch string) secretversions.Version {
	b.t.Helper()
	changed, err := b.admin.CoreV1().Secrets(b.namespace).Patch(b.ctx, name, types.MergePatchType, []byte(patch), metav1.PatchOptions{})
	b.Expect(err).NotTo(HaveOccurred())
	return secretversions.Version{UID: changed.UID, ResourceVersion: changed.ResourceVersion}
}

func (b *bench) change(name string) secretversions.Version {
	b.t.Helper()
	return b.patch(name, `{"stringData":{"key":"`+time.Duration(len(b.line.seen())).String()+name+`"}}`)
}

func (b *bench) remove(name string) {
	b.t.Helper()
	b.Expect(b.admin.CoreV1().Secrets(b.namespace).Delete(b.ctx, name, metav1.DeleteOptions{})).To(Succeed())
}

// awaitVersion waits until the Tracker knows that a Secret exists in a version.
func (b *bench) awaitVersion(name string, want secretversions.Version) {
	b.t.Helper()
	b.Eventually(func(g Gomega) {
		version, knowledge := b.tracker.Lookup(b.key(name))
		g.Expect(knowledge).To(Equal(secretversions.Present))
		g.Expect(version).To(Equal(want))
	}).WithTimeout(patience).Should(Succeed())
}

// awaitAbsent waits until the Tracker knows that a Secret does not exist.
func (b *bench) awaitAbsent(name string) {
	b.t.Helper()
	b.Eventually(func() secretversions.Knowledge {
		_, knowledge := b.tracker.Lookup(b.key(name))
		return knowledge
	}).WithTimeout(patience).Should(Equal(secretversions.Absent))
}

// fence waits until all earlier changes of Secrets have been reported.
func (b *bench) fence() {
	b.t.Helper()
	const name = "fence"
	b.use(name, name)
	b.awaitVersion(name, b.create(name))
	b.remove(name)
	b.awaitAbsent(name)
	b.use(name)
}

// inbox is the queue of a controller.
type inbox struct {
	queue process.Queue
}

func newInbox() *inbox {
	return &inbox{workqueue.NewTypedRateLimitingQueue(workqueue.DefaultTypedControllerRateLimiter[reconcile.Request]())}
}

// take returns the names in the queue, sorted, and empties it.
func (i *inbox) take() []string {
	var names []string
	for i.queue.Len() > 0 {
		request, _ := i.queue.Get()
		i.queue.Done(request)
		if request.Name != "fence" {
			names = append(names, request.Name)
		}
	}
	slices.Sort(names)
	return names
}

// line is the connection to the API server. It can be interrupted.
type line struct {
	mu       sync.Mutex
	cut      bool
	refuse   func(*http.Request) *refusal
	requests []string
	open     []context.CancelFunc
}

func (l *line) wrap(next http.RoundTripper) http.RoundTripper { return &transport{l, next} }

// seen lists the requests as path and query.
func (l *line) seen() []string {
	l.mu.Lock()
	defer l.mu.Unlock()
	return slices.Clone(l.requests)
}

// interrupt ends all watches, and blocks all requests until resume is called.
func (l *line) interrupt() {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.cut = true
	for _, each := range l.open {
		each()
	}
	l.open = nil
}

func (l *line) resume() {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.cut = false
}

// refusal is a response that replaces the API server's.
type refusal struct {
	code            int
	reason, message string
}

func (r *refusal) response(request *http.Request) *http.Response {
	body := fmt.Sprintf(`{"apiVersion":"v1","kind":"Status","status":"Failure","code":%d,"reason":%q,"message":%q}`, r.code, r.reason,
		r.message)
	return &http.Response{
		StatusCode: r.code, Status: http.StatusText(r.code), Proto: "HTTP/1.1", ProtoMajor: 1, ProtoMinor: 1, Request: request,
		Header: http.Header{"Content-Type": []string{"application/json"}}, Body: io.NopCloser(strings.NewReader(body)),
	}
}

// answer sets a function whose non-nil result replaces the API server's response.
func (l *line) answer(refuse func(*http.Request) *refusal) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.refuse = refuse
}

type transport struct {
	line *line
	next http.RoundTripper
}

// RoundTrip implements http.RoundTripper.
func (t *transport) RoundTrip(request *http.Request) (*http.Response, error) {
	ctx, cancel := context.WithCancel(request.Context())
	t.line.mu.Lock()
	t.line.requests = append(t.line.requests, request.URL.Path+"?"+request.URL.RawQuery)
	cut, refuse := t.line.cut, t.line.refuse
	t.line.open = append(t.line.open, cancel)
	t.line.mu.Unlock()
	if cut {
		cancel()
		return nil, syscall.ECONNREFUSED
	}
	if refuse != nil {
		if refused := refuse(request); refused != nil {
			return refused.response(request), nil
		}
	}
	response, err := t.next.RoundTrip(request.WithContext(ctx))
	if err == nil {
		response.Body = &body{response.Body, ctx}
	}
	return response, err
}

// body is a response body. It ends, as if the server had disappeared, when the line is interrupted.
type body struct {
	io.ReadCloser

	ctx context.Context // of the request
}

// Read implements io.Reader.
func (b *body) Read(buffer []byte) (int, error) {
	n, err := b.ReadCloser.Read(buffer)
	if err != nil && b.ctx.Err() != nil {
		err = io.EOF
	}
	return n, err
}

func streams(request *http.Request) bool {
	return request.URL.Query().Get("sendInitialEvents") == "true"
}

func watches(request *http.Request) bool { return request.URL.Query().Get("watch") != "" }

func withQuery(requests []string, part string) []string {
	return slices.DeleteFunc(requests, func(each string) bool { return !strings.Contains(each, part) })
}
