package process

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"os/exec"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/go-logr/logr"
	. "github.com/onsi/gomega"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	toolscache "k8s.io/client-go/tools/cache"
	"sigs.k8s.io/controller-runtime/pkg/builder"
	"sigs.k8s.io/controller-runtime/pkg/cache"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/manager"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"

	"github.com/espalier-dev/espalier/internal/config"
	"github.com/espalier-dev/espalier/test/local"
)

// The integration tests start this test binary again as the binary "gardener", so that they use real signals, exit codes and output. These
// variables define what the binary does.
const (
	roleVariable    = "ESPALIER_PROCESS_TEST"
	roleGardener    = "gardener" // watches ConfigMaps in the source and prints their changes
	roleNeedsBonsai = "needs-bonsai"
	roleStubborn    = "stubborn" // never ends
	roleBusy        = "busy"     // is always in the middle of a reconciliation
	roleUnsynced    = "unsynced" // waits for a cache whose requests get no answer
)

func TestMain(m *testing.M) {
	if os.Getenv(roleVariable) != "" {
		os.Exit(Main(runGardener))
	}
	os.Exit(m.Run())
}

// runGardener is a main function like those of the binaries.
func runGardener(ctx context.Context, args []string, out io.Writer) error {
	_, setup, err := Load(gardener(), args, out, config.ResourceManager)
	if err != nil {
		return err
	}
	if os.Getenv(roleVariable) == roleStubborn {
		setup.Log.Info("Staying")
		select {}
	}
	if os.Getenv(roleVariable) == roleUnsynced {
		setup.WrapTransport = func(next http.RoundTripper) http.RoundTripper { return unlistedSecrets{next, setup.Log} }
	}
	scheme := runtime.NewScheme()
	err = corev1.AddToScheme(scheme)
	if err != nil {
		return err
	}
	configMaps := Requirement{Kind: schema.GroupVersionKind{Version: "v1", Kind: "ConfigMap"}, Verbs: []string{"list", "watch"}}
	needs := Needs{Scheme: scheme, SourceAccess: []Requirement{configMaps}}
	if os.Getenv(roleVariable) == roleNeedsBonsai {
		needs.TargetAccess = []Requirement{{Kind: schema.GroupVersionKind{Group: "trees.example.com", Version: "v1", Kind: "Bonsai"}}}
	}
	clusters, err := setup.Connect(ctx, needs)
	if err != nil {
		return err
	}
	if err := addInterrupted(clusters, os.Getenv(roleVariable), setup.Log); err != nil {
		return err
	}
	same, known := clusters.Same.Answer()
	setup.Log.Info("Connected", "source", clusters.Source.GetConfig().Host, "target", clusters.TargetConfig.Host,
		"shared", clusters.Target.GetCache() == clusters.Source.GetCache(), "same", same && known, "namespace", clusters.OwnNamespace)
	if err := clusters.Source.Add(manager.RunnableFunc(func(ctx context.Context) error {
		setup.Log.Info("Leading")
		informer, err := clusters.Source.GetCache().GetInformer(ctx, &corev1.ConfigMap{})
		if err != nil {
			return err
		}
		_, err = informer.AddEventHandler(toolscache.ResourceEventHandlerFuncs{AddFunc: func(object any) {
			if configMap, ok := object.(*corev1.ConfigMap); ok {
				setup.Log.Info("Saw", "object", configMap.Namespace+"/"+configMap.Name)
			}
		}})
		<-ctx.Done()
		return err
	})); err != nil {
		return err
	}
	return clusters.Start(ctx)
}

// addInterrupted adds the controller that a signal interrupts in the roles roleBusy and roleUnsynced.
func addInterrupted(clusters *Clusters, role string, log logr.Logger) error {
	kinds := map[string]client.Object{roleBusy: &corev1.ConfigMap{}, roleUnsynced: &corev1.Secret{}}
	if kinds[role] == nil {
		return nil
	}
	return builder.ControllerManagedBy(clusters.Source).Named(role).For(kinds[role]).
		Complete(reconcile.Func(func(ctx context.Context, _ reconcile.Request) (reconcile.Result, error) {
			log.Info("Reconciling")
			<-ctx.Done()
			return reconcile.Result{}, fmt.Errorf("reconcile: %w", ctx.Err())
		}))
}

// unlistedSecrets is a transport that never answers requests for Secrets.
type unlistedSecrets struct {
	http.RoundTripper
	log logr.Logger
}

func (u unlistedSecrets) RoundTrip(request *http.Request) (*http.Response, error) {
	if !strings.HasSuffix(request.URL.Path, "/secrets") {
		return u.RoundTripper.RoundTrip(request)
	}
	u.log.Info("Listing")
	<-request.Context().Done()
	return nil, request.Context().Err()
}

// running is a process that runs the binary "gardener".
type running struct {
	cmd     *exec.Cmd
	out     *lockedBuffer
	done    chan struct{}
	code    int
	probes  string // URL
	metrics string // URL
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

// start runs "gardener" with that configuration, to which it adds the API servers, and with exactly that environment.
func start(t *testing.T, role, configuration string, env ...string) *running {
	t.Helper()
	probes, metrics := freePort(t), freePort(t)
	file := writeFile(t, "config.yaml", configuration+fmt.Sprintf(`
server:
  healthProbes: {bindAddress: 127.0.0.1, port: %d}
  metrics: {bindAddress: 127.0.0.1, port: %d}
`, probes, metrics))
	r := startFile(t, role, file, env...)
	r.probes, r.metrics = "http://127.0.0.1:"+strconv.Itoa(probes), "http://127.0.0.1:"+strconv.Itoa(metrics)
	return r
}

// startFile runs "gardener" with a configuration file.
func startFile(t *testing.T, role, file string, env ...string) *running {
	t.Helper()
	r := &running{out: &lockedBuffer{}, done: make(chan struct{})}
	r.cmd = exec.CommandContext(t.Context(), os.Args[0], "--config="+file)
	r.cmd.Env = append([]string{roleVariable + "=" + role}, env...)
	r.cmd.Stdout, r.cmd.Stderr = r.out, r.out
	NewWithT(t).Expect(r.cmd.Start()).To(Succeed())
	go func() {
		defer close(r.done)
		var exit *exec.ExitError
		if err := r.cmd.Wait(); errors.As(err, &exit) {
			r.code = exit.ExitCode()
		}
	}()
	t.Cleanup(func() {
		_ = r.cmd.Process.Kill()
		<-r.done
		if t.Failed() {
			t.Logf("output of process %d:\n%s", r.cmd.Process.Pid, r.out)
		}
	})
	return r
}

// testPatience is the longest time that tests wait for an event that takes milliseconds on an idle machine.
const testPatience = 30 * time.Second

// awaitOutput waits until the process has printed the text.
func (r *running) awaitOutput(t *testing.T, text string) {
	t.Helper()
	NewWithT(t).Eventually(r.out.String).WithTimeout(testPatience).Should(ContainSubstring(text))
}

// get waits until a request to the URL returns the status, and returns the body.
func get(t *testing.T, url string, status int) string {
	t.Helper()
	var body string
	NewWithT(t).Eventually(func(g Gomega) {
		request, err := http.NewRequestWithContext(t.Context(), http.MethodGet, url, http.NoBody)
		g.Expect(err).NotTo(HaveOccurred())
		response, err := http.DefaultClient.Do(request)
		g.Expect(err).NotTo(HaveOccurred())
		defer response.Body.Close()
		data, err := io.ReadAll(response.Body)
		g.Expect(err).NotTo(HaveOccurred())
		body = string(data)
		g.Expect(response.StatusCode).To(Equal(status), body)
	}).WithTimeout(testPatience).Should(Succeed())
	return body
}

// ends waits until the process ends, and returns the exit code and the last line of the output.
func (r *running) ends(t *testing.T) (code int, last string) {
	t.Helper()
	NewWithT(t).Eventually(r.done).WithTimeout(testPatience).Should(BeClosed())
	lines := strings.Split(strings.TrimSpace(r.out.String()), "\n")
	return r.code, lines[len(lines)-1]
}

func (r *running) signal(t *testing.T) {
	t.Helper()
	NewWithT(t).Expect(r.cmd.Process.Signal(syscall.SIGTERM)).To(Succeed())
}

func freePort(t *testing.T) int {
	t.Helper()
	var listen net.ListenConfig
	listener, err := listen.Listen(t.Context(), "tcp", "127.0.0.1:0")
	NewWithT(t).Expect(err).NotTo(HaveOccurred())
	defer func() { _ = listener.Close() }()
	address, ok := listener.Addr().(*net.TCPAddr)
	NewWithT(t).Expect(ok).To(BeTrue())
	return address.Port
}

// servers returns the API servers of the test run.
func servers(t *testing.T) local.Servers {
	t.Helper()
	if testing.Short() {
		t.Skip("needs an API server")
	}
	found, err := local.ForTests()
	NewWithT(t).Expect(err).NotTo(HaveOccurred())
	return found
}

// admin returns a client with all rights.
func admin(t *testing.T, server local.Server) client.Client {
	t.Helper()
	c, err := client.New(server.Config, client.Options{})
	NewWithT(t).Expect(err).NotTo(HaveOccurred())
	return c
}

// newNamespace creates a namespace for one test.
func newNamespace(t *testing.T, c client.Client) string {
	t.Helper()
	namespace := &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{GenerateName: "process-"}}
	NewWithT(t).Expect(c.Create(t.Context(), namespace)).To(Succeed())
	t.Cleanup(func() { _ = c.Delete(context.WithoutCancel(t.Context()), namespace) })
	return namespace.Name
}

func configIn(namespace, more string) string {
	return "apiVersion: resourcemanager.config.gardener.cloud/v1alpha1\nkind: ResourceManagerConfiguration\n" +
		"leaderElection: {resourceNamespace: " + namespace + ", leaseDuration: 60s, renewDeadline: 40s, retryPeriod: 1s}\n" +
		"sourceClientConnection: {kubeconfig: /only/the/environment/counts, namespaces: [" + namespace + "]}\n" + more
}

// connect calls Connect in this process. It does not start the manager, so the caches stay empty.
func connect(t *testing.T, configuration string) *Clusters {
	t.Helper()
	g := NewWithT(t)
	file := writeFile(t, "config.yaml",
		configuration+fmt.Sprintf("server: {healthProbes: {bindAddress: 127.0.0.1, port: %d}, metrics: {bindAddress: 127.0.0.1, port: %d}}\n",
			freePort(t), freePort(t)))
	_, setup, err := Load(gardener(), []string{"--config", file}, &lockedBuffer{}, config.ResourceManager)
	g.Expect(err).NotTo(HaveOccurred())
	scheme := runtime.NewScheme()
	g.Expect(corev1.AddToScheme(scheme)).To(Succeed())
	onlyLive := cache.Options{ReaderFailOnMissingInformer: true}
	clusters, err := setup.Connect(t.Context(), Needs{Scheme: scheme, SourceCache: onlyLive, TargetCache: onlyLive})
	g.Expect(err).NotTo(HaveOccurred())
	return clusters
}
