package serving_test

import (
	"context"
	"fmt"
	"io"
	"net"
	"net/http"
	"strconv"
	"testing"
	"time"

	"github.com/go-logr/logr"
	. "github.com/onsi/gomega"
	"github.com/prometheus/client_golang/prometheus"
	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/client-go/rest"
	clocktesting "k8s.io/utils/clock/testing"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/controller-runtime/pkg/manager"
	metricsserver "sigs.k8s.io/controller-runtime/pkg/metrics/server"
	"sigs.k8s.io/controller-runtime/pkg/webhook"

	"github.com/espalier-dev/espalier/internal/admission/admissiontest"
	"github.com/espalier-dev/espalier/internal/admission/serving"
	"github.com/espalier-dev/espalier/internal/process"
)

// newManager returns a manager that sends no request to an API server, and ends within the grace period.
func newManager(server webhook.Server, probes string, grace time.Duration) (manager.Manager, error) {
	return manager.New(&rest.Config{Host: "https://127.0.0.1:1"}, manager.Options{
		MapperProvider: func(*rest.Config, *http.Client) (meta.RESTMapper, error) { return meta.NewDefaultRESTMapper(nil), nil },
		Metrics:        metricsserver.Options{BindAddress: "0"}, HealthProbeBindAddress: probes,
		WebhookServer: server, Logger: logr.Discard(), GracefulShutdownTimeout: ptr.To(grace),
	})
}

// add registers a server and its readiness check with a manager.
func add(t *testing.T, mgr manager.Manager) {
	t.Helper()
	_, err := serving.Add(&process.Clusters{Source: mgr}, prometheus.NewRegistry(), nil)
	NewWithT(t).Expect(err).NotTo(HaveOccurred())
}

// readyz returns the status code and the body of /readyz/webhook-server.
func readyz(ctx context.Context, probes string) (code int, text string) {
	request, err := http.NewRequestWithContext(ctx, http.MethodGet, "http://"+probes+"/readyz/webhook-server", http.NoBody)
	if err != nil {
		return 0, err.Error()
	}
	response, err := http.DefaultClient.Do(request)
	if err != nil {
		return 0, err.Error()
	}
	defer response.Body.Close()
	body, err := io.ReadAll(response.Body)
	if err != nil {
		return 0, err.Error()
	}
	return response.StatusCode, string(body)
}

// TestAManagerEndsWithReadinessFirst checks the order: not ready, then the delay in which everything works, then the rest.
func TestAManagerEndsWithReadinessFirst(t *testing.T) {
	g := NewWithT(t)
	fake := clocktesting.NewFakeClock(time.Now())
	server := serving.New(serving.Options{BindAddress: "127.0.0.1", CertDir: certDir(t, "one"), ShutdownDelay: 2 * time.Second, Clock: fake})
	server.Register("/hook", http.HandlerFunc(answer))
	probes := net.JoinHostPort("127.0.0.1", strconv.Itoa(admissiontest.FreePort(t)))
	mgr, err := newManager(server, probes, patience) // patience is counted by the real clock
	g.Expect(err).NotTo(HaveOccurred())
	add(t, mgr)
	controllers := make(chan struct{})
	g.Expect(mgr.Add(manager.RunnableFunc(func(ctx context.Context) error {
		<-ctx.Done()
		close(controllers)
		return nil
	}))).To(Succeed())
	ctx, stop := context.WithCancel(t.Context())
	defer stop()
	done := make(chan error, 1)
	go func() { done <- mgr.Start(ctx) }()
	status := func() int { code, _ := readyz(t.Context(), probes); return code }
	g.Eventually(status).WithTimeout(patience).Should(Equal(http.StatusOK))
	client := newClient(t, false)
	hook := fmt.Sprintf("https://127.0.0.1:%d/hook", server.Port())

	stop()

	g.Eventually(status).WithTimeout(patience).WithPolling(time.Millisecond).Should(Equal(http.StatusInternalServerError))
	g.Eventually(fake.HasWaiters).WithTimeout(patience).WithPolling(time.Millisecond).
		Should(BeTrue(), "the delay begins a moment after readiness has ended")
	response, err := post(t.Context(), client, hook)
	g.Expect(err).NotTo(HaveOccurred())
	g.Expect(response.closes).To(BeFalse(), "no client can have noticed yet")
	fake.Step(time.Second)
	response, err = post(t.Context(), client, hook)
	g.Expect(err).NotTo(HaveOccurred())
	g.Expect(response.closes).To(BeTrue(), "clients must leave in the second half of the delay")
	fake.Step(999 * time.Millisecond)
	_, err = post(t.Context(), client, hook)
	g.Expect(err).NotTo(HaveOccurred())
	g.Consistently(controllers).WithTimeout(300*time.Millisecond).ShouldNot(BeClosed(), "controllers and caches must work during the delay")
	g.Expect(status()).To(Equal(http.StatusInternalServerError), "/readyz must answer during the delay")

	fake.Step(time.Millisecond)
	g.Eventually(done).WithTimeout(patience).Should(Receive(BeNil()))
	g.Expect(controllers).To(BeClosed())
	_, err = post(t.Context(), client, hook)
	g.Expect(err).To(MatchError(ContainSubstring("connection refused")))
}

func TestAManagerWithoutServerDoesNotWait(t *testing.T) {
	g := NewWithT(t)
	fake := clocktesting.NewFakeClock(time.Now())
	server := serving.New(serving.Options{BindAddress: "127.0.0.1", CertDir: t.TempDir(), ShutdownDelay: 2 * time.Second, Clock: fake})
	mgr, err := newManager(server, "0", patience)
	g.Expect(err).NotTo(HaveOccurred())
	add(t, mgr)
	g.Expect(mgr.Start(t.Context())).To(MatchError(ContainSubstring("read certificate of webhook server: ")))
}

func TestAManagerOfAnotherServerIsRefused(t *testing.T) {
	g := NewWithT(t)
	mgr, err := newManager(webhook.NewServer(webhook.Options{}), "0", patience)
	g.Expect(err).NotTo(HaveOccurred())
	_, err = serving.Add(&process.Clusters{Source: mgr}, prometheus.NewRegistry(), nil)
	g.Expect(err).To(MatchError("the manager was not made with the needs of a process that serves webhooks"))
}

func TestRequestsInFlightAreFinished(t *testing.T) {
	for name, http2 := range map[string]bool{"HTTP/1.1": false, "HTTP/2": true} {
		t.Run(name, func(t *testing.T) {
			g := NewWithT(t)
			arrived, goOn := make(chan struct{}), make(chan struct{})
			s := start(t, serving.Options{CertDir: certDir(t, "one"), ShutdownLimit: 2 * patience}, func(w http.ResponseWriter, r *http.Request) {
				close(arrived)
				<-goOn
				if r.Context().Err() == nil { // Look-ups of the handler still work.
					answer(w, r)
				}
			})
			result := make(chan error, 1)
			go func() {
				_, err := post(t.Context(), newClient(t, http2), s.url)
				result <- err
			}()
			<-arrived
			s.stop()
			refused := func() error {
				_, err := post(t.Context(), newClient(t, http2), s.url)
				return err
			}
			g.Eventually(refused).WithTimeout(patience).Should(MatchError(ContainSubstring("connection refused")))
			g.Expect(s.done).NotTo(Receive())
			close(goOn)
			g.Eventually(result).WithTimeout(patience).Should(Receive(BeNil()))
			g.Eventually(s.done).WithTimeout(patience).Should(Receive(BeNil()))
		})
	}
}

// stuck returns a server with a request that ends when its context ends, which also closes cut, or when the test closes goOn. The server
// has been asked to end, its delay is over, and the time left remains until its limit.
func stuck(t *testing.T, left time.Duration) (running *started, cut <-chan struct{}, goOn chan<- struct{}) {
	t.Helper()
	const delay = 2 * patience // longer than the default limit, and than patience if the limit were counted from the end of the delay
	fake := clocktesting.NewFakeClock(time.Now())
	arrived, ended, free := make(chan struct{}), make(chan struct{}), make(chan struct{})
	options := serving.Options{CertDir: certDir(t, "one"), ShutdownDelay: delay, ShutdownLimit: delay + left, Clock: fake}
	s := start(t, options, func(_ http.ResponseWriter, r *http.Request) {
		close(arrived)
		select {
		case <-r.Context().Done():
			close(ended)
		case <-free:
		}
	})
	client := newClient(t, true)
	go func() { _, _ = post(t.Context(), client, s.url) }()
	<-arrived
	s.stop()
	NewWithT(t).Eventually(fake.HasWaiters).WithTimeout(patience).WithPolling(time.Millisecond).Should(BeTrue())
	fake.Step(delay)
	return s, ended, free
}

func TestTheLimitEndsWhatDoesNotEnd(t *testing.T) {
	g := NewWithT(t)
	s, cut, _ := stuck(t, 200*time.Millisecond)
	g.Eventually(s.done).WithTimeout(patience).Should(Receive(BeNil()))
	g.Eventually(cut).WithTimeout(patience).Should(BeClosed())
}

func TestNothingEndsBeforeTheLimit(t *testing.T) {
	g := NewWithT(t)
	s, cut, goOn := stuck(t, time.Hour)
	g.Eventually(func() error {
		_, err := post(t.Context(), newClient(t, true), s.url)
		return err
	}).WithTimeout(patience).Should(MatchError(ContainSubstring("connection refused")))
	g.Consistently(s.done).WithTimeout(300 * time.Millisecond).ShouldNot(Receive())
	close(goOn)
	g.Eventually(s.done).WithTimeout(patience).Should(Receive(BeNil()))
	g.Expect(cut).NotTo(BeClosed())
}
