package together_test

import (
	"fmt"
	"net"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	. "github.com/onsi/gomega"

	"github.com/espalier-dev/espalier/internal/admission/admissiontest"
	"github.com/espalier-dev/espalier/internal/config"
	"github.com/espalier-dev/espalier/internal/webhook/webhooktest"
	"github.com/espalier-dev/espalier/test/binary"
	"github.com/espalier-dev/espalier/test/local"
)

// replica is a process of webhook-server, from a built binary.
type replica struct {
	// address is the address at which the replica serves webhooks, probe the URL of its readiness probe.
	address, probe string
	command        *exec.Cmd
	// ready reports whether the balancer considers the replica ready; the lock of the balancer guards it.
	ready bool
	// connections is the number of open connections from the balancer to the replica.
	connections atomic.Int64
}

// pair consists of two replicas behind one address. An API server calls them for the Pods of a namespace.
type pair struct {
	*webhooktest.Env
	balancer *balancer
	replicas [2]*replica
}

// creators is the number of clients that create Pods through the API server at the same time.
const creators = 2

// loadPatience is how long some hundred requests may take on a busy machine.
const loadPatience = 5 * time.Minute

func newPair(t *testing.T) *pair {
	t.Helper()
	g := NewWithT(t)
	server := filepath.Join(t.TempDir(), "webhook-server")
	g.Expect(local.Compile(t.Context(), server, "./cmd/webhook-server")).To(Succeed())
	p := &pair{Env: &webhooktest.Env{CertDir: t.TempDir()}, balancer: newBalancer(t)}
	p.CA = admissiontest.Certify(t, p.CertDir)
	p.URL, p.HTTP = p.balancer.url(), admissiontest.Client(t, p.CA)
	p.Env.Env = binary.New(t, webhooktest.Binary(), binary.Options{Config: "webhooks: {seccompProfile: {enabled: true}}\n", Stopped: true})
	for i := range p.replicas {
		p.replicas[i] = p.start(server)
	}
	p.balancer.follow(t.Context(), p.replicas[0], p.replicas[1])
	p.Eventually(p.balancer.allReady, binary.Patience, "10ms").Should(BeTrue())
	p.Register(webhooktest.Options{Flavor: config.FlavorGardenerRuntime})
	// Pods can be created when a controller has created the ServiceAccount default.
	p.Eventually(func() error { return createOne(p.Ctx, p.Target, p.Namespace) }, binary.Patience, "50ms").Should(Succeed())
	return p
}

// start starts a process of the server with the shipped rights.
func (p *pair) start(server string) *replica {
	p.T.Helper()
	dir := p.T.TempDir()
	ports := [3]int{admissiontest.FreePort(p.T), admissiontest.FreePort(p.T), admissiontest.FreePort(p.T)}
	text := fmt.Sprintf(`apiVersion: resourcemanager.config.gardener.cloud/v1alpha1
kind: ResourceManagerConfiguration
sourceClientConnection: {kubeconfig: %q}
leaderElection: {leaderElect: false}
server:
  healthProbes: {bindAddress: 127.0.0.1, port: %d}
  metrics: {bindAddress: 127.0.0.1, port: %d}
  webhooks: {bindAddress: 127.0.0.1, port: %d, tls: {serverCertDir: %q}}
webhooks: {seccompProfile: {enabled: true}}
`, filepath.Join(dir, "kubeconfig"), ports[0], ports[1], ports[2], p.CertDir)
	p.Expect(os.WriteFile(filepath.Join(dir, "kubeconfig"), p.Kubeconfigs.Source, 0o600)).To(Succeed())
	p.Expect(os.WriteFile(filepath.Join(dir, "config.yaml"), []byte(text), 0o600)).To(Succeed())
	r := &replica{
		address: net.JoinHostPort("127.0.0.1", strconv.Itoa(ports[2])), probe: "http://" + net.JoinHostPort("127.0.0.1", strconv.Itoa(ports[0])),
		command: exec.Command(server, "--config="+filepath.Join(dir, "config.yaml")),
	}
	log, err := os.Create(filepath.Join(dir, "log"))
	p.Expect(err).NotTo(HaveOccurred())
	r.command.Stdout, r.command.Stderr = log, log
	p.Expect(r.command.Start()).To(Succeed())
	p.T.Cleanup(func() {
		_ = r.command.Process.Kill()
		_ = r.command.Wait()
		_ = log.Close()
		if content, err := os.ReadFile(log.Name()); err == nil && p.T.Failed() {
			p.T.Logf("log of the server at %s:\n%s", r.address, content)
		}
	})
	return r
}

// both starts two loads: reviews that clients post directly, as many as in the benchmark, and Pods that are created through the API server.
// An HTTP/2 client has one connection; there are several clients, so that each replica has connections.
func (p *pair) both() (direct, through *load) {
	p.T.Helper()
	clients := [4]*http.Client{}
	for i := range clients {
		clients[i] = admissiontest.Client(p.T, p.CA)
		p.connect(clients[i])
	}
	var next atomic.Int64
	direct = post(p.T, p.URL+"/webhooks/seccomp-profile", 500, func() *http.Client { return clients[int(next.Add(1))%len(clients)] })
	return direct, create(p.T, p.Target, p.Namespace, creators, 0)
}

// connect makes a client open its connection before the load begins. A client that sends its first requests at the same time opens several
// connections and keeps one of them: then all clients could be connected to the same replica.
func (p *pair) connect(with *http.Client) {
	p.T.Helper()
	request, err := http.NewRequestWithContext(p.Ctx, http.MethodGet, p.URL, http.NoBody)
	p.Expect(err).NotTo(HaveOccurred())
	response, err := with.Do(request)
	p.Expect(err).NotTo(HaveOccurred())
	p.Expect(response.Body.Close()).To(Succeed())
}

// warm waits until both loads have sent some requests, and returns the replica that has more connections, and the other one.
func (p *pair) warm(loads ...*load) (busy, other *replica) {
	p.T.Helper()
	for _, l := range loads {
		p.Eventually(l.asked.Load, loadPatience, "10ms").Should(BeNumerically(">", 100))
	}
	return p.balancer.busiest(p)
}

// more waits until each load has received some more responses.
func (p *pair) more(loads ...*load) {
	p.T.Helper()
	for _, l := range loads {
		p.Eventually(l.asked.Load, loadPatience, "10ms").Should(BeNumerically(">", l.asked.Load()+200))
	}
}

func TestAReplicaThatIsStoppedUnderLoadFailsNoRequest(t *testing.T) {
	p := newPair(t)
	direct, through := p.both()
	stopped, other := p.warm(direct, through)
	t.Logf("connections: %d of the replica that is stopped, %d of the other", stopped.connections.Load(), other.connections.Load())
	p.Expect(stopped.command.Process.Signal(syscall.SIGTERM)).To(Succeed())
	p.Expect(stopped.command.Wait()).To(Succeed(), "it ends by itself, without error")
	p.more(direct, through)
	for name, l := range map[string]*load{"posted": direct, "through the API server": through} {
		asked, failed := l.end()
		t.Logf("%s: %d requests, %d failed", name, asked, failed)
		p.Expect(failed).To(BeZero(), "%v", l.failures)
	}
}

// A client notices a broken connection when all requests that wait for a response on it fail. Until then it may send more requests on it.
// So the requests in flight end with the first failure of the client; after that, each of its requests must succeed.
func TestOfAReplicaThatIsKilledOnlyRequestsInFlightFail(t *testing.T) {
	p := newPair(t)
	direct, through := p.both()
	killed, _ := p.warm(direct, through)
	connections := killed.connections.Load()
	p.Expect(killed.command.Process.Kill()).To(Succeed())
	_ = killed.command.Wait() // until the process has ended, a new connection may still reach it
	direct.warned.Store(true)
	through.warned.Store(true)
	p.Eventually(killed.connections.Load, binary.Patience, "10ms").Should(BeZero(), "the balancer has not noticed")
	p.more(direct, through)
	directAsked, directFailed := direct.end()
	throughAsked, throughFailed := through.end()
	t.Logf("killed: of %d posted %d failed, of %d through the API server %d, by %d connections", directAsked, directFailed, throughAsked,
		throughFailed, connections)
	p.Expect(direct.again.Load()).To(BeZero(), "not in flight, but failed: %v", direct.failures)
	// The API server may have several connections, and notices the end of each one separately.
	p.Expect(throughFailed).To(BeNumerically("<=", creators*connections), "more failed than was in flight: %v", through.failures)
}
