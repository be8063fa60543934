package serving_test

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"os/exec"
	"slices"
	"strconv"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"github.com/go-logr/logr"
	. "github.com/onsi/gomega"
	"github.com/prometheus/client_golang/prometheus"
	"k8s.io/utils/clock"
	ctrllog "sigs.k8s.io/controller-runtime/pkg/log"

	"github.com/espalier-dev/espalier/internal/admission/admissiontest"
	"github.com/espalier-dev/espalier/internal/admission/serving"
	"github.com/espalier-dev/espalier/internal/process"
)

// These variables make this test binary a replica, so that tests use real signals and exits.
const (
	hookPort  = "ESPALIER_SERVING_TEST_PORT"
	probePort = "ESPALIER_SERVING_TEST_PROBES"
	certsIn   = "ESPALIER_SERVING_TEST_CERTS"
)

func TestMain(m *testing.M) {
	ctrllog.SetLogger(logr.Discard())
	if os.Getenv(hookPort) != "" {
		os.Exit(process.Main(runReplica))
	}
	os.Exit(m.Run())
}

// runReplica is the main function of one replica. Its webhook takes at least 5 ms for each request.
func runReplica(ctx context.Context, _ []string, _ io.Writer) error {
	port, err := strconv.Atoi(os.Getenv(hookPort))
	if err != nil {
		return err
	}
	server := serving.New(serving.Options{
		// the defaults of the product, except for ports and delay
		BindAddress: "127.0.0.1", Port: port, CertDir: os.Getenv(certsIn), ShutdownDelay: 2 * time.Second, Clock: clock.RealClock{},
	})
	server.Register("/hook", http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		<-time.After(5 * time.Millisecond)
		answer(w, r)
	}))
	mgr, err := newManager(server, "127.0.0.1:"+os.Getenv(probePort), 4500*time.Millisecond)
	if err != nil {
		return err
	}
	if _, err := serving.Add(&process.Clusters{Source: mgr}, prometheus.NewRegistry(), nil); err != nil {
		return err
	}
	return mgr.Start(ctx)
}

// replica is a process.
type replica struct {
	cmd     *exec.Cmd
	done    chan struct{}
	address string
	probes  string
}

func startReplica(t *testing.T, certs string) *replica {
	t.Helper()
	g := NewWithT(t)
	port, probes := strconv.Itoa(admissiontest.FreePort(t)), strconv.Itoa(admissiontest.FreePort(t))
	r := &replica{done: make(chan struct{}), address: "127.0.0.1:" + port, probes: "127.0.0.1:" + probes}
	r.cmd = exec.CommandContext(t.Context(), os.Args[0])
	r.cmd.Env = []string{hookPort + "=" + port, probePort + "=" + probes, certsIn + "=" + certs}
	r.cmd.Stdout, r.cmd.Stderr = os.Stderr, os.Stderr
	g.Expect(r.cmd.Start()).To(Succeed())
	go func() {
		defer close(r.done)
		_ = r.cmd.Wait()
	}()
	t.Cleanup(func() {
		_ = r.cmd.Process.Kill()
		<-r.done
	})
	g.Eventually(func() int { code, _ := readyz(t.Context(), r.probes); return code }).WithTimeout(patience).Should(Equal(http.StatusOK))
	return r
}

// balancer forwards connections to replicas that are ready, one after the other. Like kube-proxy it checks now and then which
// replicas are ready, leaves connections alone that it has forwarded, and knows nothing of HTTP.
type balancer struct {
	// retries makes the balancer try another replica if one refuses the connection. kube-proxy does not do this.
	retries  bool
	listener net.Listener
	replicas []*replica
	ready    []atomic.Bool
	next     atomic.Int64
	running  sync.WaitGroup
}

func startBalancer(t *testing.T, retries bool, replicas ...*replica) *balancer {
	t.Helper()
	var config net.ListenConfig
	listener, err := config.Listen(t.Context(), "tcp", "127.0.0.1:0")
	NewWithT(t).Expect(err).NotTo(HaveOccurred())
	b := &balancer{retries: retries, listener: listener, replicas: replicas, ready: make([]atomic.Bool, len(replicas))}
	ctx, cancel := context.WithCancel(context.WithoutCancel(t.Context()))
	for i := range replicas {
		b.ready[i].Store(true)
		b.running.Go(func() { b.probe(ctx, i) })
	}
	b.running.Go(b.accept)
	t.Cleanup(func() {
		cancel()
		_ = listener.Close()
		b.running.Wait()
	})
	return b
}

func (b *balancer) probe(ctx context.Context, i int) {
	for ctx.Err() == nil {
		code, _ := readyz(ctx, b.replicas[i].probes)
		b.ready[i].Store(code == http.StatusOK)
		select {
		case <-ctx.Done():
		case <-time.After(100 * time.Millisecond):
		}
	}
}

func (b *balancer) accept() {
	for {
		connection, err := b.listener.Accept()
		if err != nil {
			return
		}
		b.running.Go(func() { b.forward(connection) })
	}
}

func (b *balancer) forward(connection net.Conn) {
	defer func() { _ = connection.Close() }()
	upstream, err := b.dial()
	if err != nil {
		return
	}
	defer func() { _ = upstream.Close() }()
	var both sync.WaitGroup
	both.Go(func() { _, _ = io.Copy(upstream, connection); closeWrite(upstream) })
	both.Go(func() { _, _ = io.Copy(connection, upstream); closeWrite(connection) })
	both.Wait()
}

// dial connects to the next replica that is ready.
func (b *balancer) dial() (upstream net.Conn, err error) {
	err = errors.New("no replica is ready")
	first := int(b.next.Add(1))
	for n := range b.replicas { // each replica once, although other clients connect meanwhile
		i := (first + n) % len(b.replicas)
		if !b.ready[i].Load() {
			continue
		}
		upstream, err = net.Dial("tcp", b.replicas[i].address) //nolint:noctx // It is refused or taken at once.
		if err == nil || !b.retries {
			break
		}
	}
	return upstream, err
}

// closeWrite tells the peer that no more data follows.
func closeWrite(connection net.Conn) {
	if half, ok := connection.(interface{ CloseWrite() error }); ok {
		_ = half.CloseWrite()
	}
}

// tally counts the requests of clients and records their failures.
type tally struct {
	mu                 sync.Mutex
	requests, inFlight int
	failures           []string
	// mostInFlight is the highest number of requests that were in flight at the same time.
	mostInFlight int
}

func (c *tally) one(ctx context.Context, client *http.Client, url string) {
	c.mu.Lock()
	c.requests++
	c.inFlight++
	c.mostInFlight = max(c.mostInFlight, c.inFlight)
	c.mu.Unlock()
	_, err := post(ctx, client, url)
	c.mu.Lock()
	defer c.mu.Unlock()
	c.inFlight--
	if err != nil {
		c.failures = append(c.failures, fmt.Sprintf("request %d: %v", c.requests, err))
	}
}

func (c *tally) count() int {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.requests
}

func (c *tally) failed() []string {
	c.mu.Lock()
	defer c.mu.Unlock()
	return slices.Clone(c.failures)
}

// load sends requests by HTTP/1.1 and HTTP/2 until the context ends.
func (c *tally) load(ctx context.Context, t *testing.T, url string) *sync.WaitGroup {
	t.Helper()
	var running sync.WaitGroup
	// A client of HTTP/2 has one connection. With several clients, each replica has some.
	for _, http2 := range []bool{false, true, true, true} {
		client := newClient(t, http2)
		for range 3 {
			running.Go(func() {
				for ctx.Err() == nil {
					c.one(context.WithoutCancel(ctx), client, url)
					<-time.After(5 * time.Millisecond)
				}
			})
		}
	}
	return &running
}

func TestTwoReplicas(t *testing.T) {
	certs := certDir(t, "one")
	for name, tc := range map[string]struct {
		signal  syscall.Signal
		retries bool
		code    int
		check   func(g Gomega, c *tally)
	}{
		"one is asked to end, and no request fails": {
			syscall.SIGTERM, false, 0,
			func(g Gomega, c *tally) { g.Expect(c.failures).To(BeEmpty()) },
		},
		"one is killed, and no request fails but those that it has taken": {
			syscall.SIGKILL, true, -1,
			// A client can lose two requests: the one in flight, and another if the replica accepts its next connection just before it
			// ends.
			func(g Gomega, c *tally) { g.Expect(len(c.failures)).To(BeNumerically("<=", 2*c.mostInFlight)) },
		},
	} {
		t.Run(name, func(t *testing.T) {
			g := NewWithT(t)
			one, two := startReplica(t, certs), startReplica(t, certs)
			b := startBalancer(t, tc.retries, one, two)
			ctx, stop := context.WithCancel(t.Context())
			defer stop()
			c := &tally{}
			running := c.load(ctx, t, "https://"+b.listener.Addr().String()+"/hook")
			g.Eventually(c.count).WithTimeout(patience).Should(BeNumerically(">", 100))

			g.Expect(one.cmd.Process.Signal(tc.signal)).To(Succeed())
			g.Eventually(one.done).WithTimeout(patience).Should(BeClosed())
			after := c.count()
			g.Eventually(c.count).WithTimeout(patience).Should(BeNumerically(">", after+100), "the other replica must go on")
			failed := c.failed() // By now each client has noticed which connections have ended.
			g.Eventually(c.count).WithTimeout(patience).Should(BeNumerically(">", after+200))
			g.Expect(c.failed()).To(Equal(failed), "no request fails once the replica is gone")
			stop()
			running.Wait()

			g.Expect(one.cmd.ProcessState.ExitCode()).To(Equal(tc.code))
			g.Expect(two.cmd.ProcessState).To(BeNil())
			t.Logf("%d requests, %d failed, at most %d in flight: %v", c.requests, len(c.failures), c.mostInFlight, c.failures)
			tc.check(g, c)
		})
	}
}
