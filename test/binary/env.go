package binary

import (
	"context"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/go-logr/logr"
	. "github.com/onsi/gomega"
	"github.com/prometheus/client_golang/prometheus"
	authorizationv1 "k8s.io/api/authorization/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/rest"
	"k8s.io/utils/clock"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/espalier-dev/espalier/internal/config"
	"github.com/espalier-dev/espalier/internal/process"
	"github.com/espalier-dev/espalier/test/local"
)

// Patience is how long tests wait for an event that takes milliseconds on an idle machine.
const Patience = time.Minute

// Binary describes one binary of cmd/.
type Binary struct {
	// Name is the name of the binary in cmd/ and deploy/.
	Name string
	// SharesLease is the field of the same name in the binary's process.Program.
	SharesLease bool
	// Needs and Add are the functions of the binary's family.
	Needs func(*config.ResourceManagerConfiguration) (process.Needs, error)
	Add   func(context.Context, *process.Clusters, *config.ResourceManagerConfiguration, prometheus.Registerer) error
}

// Options configure the binary and its clusters.
type Options struct {
	// TwoClusters makes the target another cluster than the source.
	TwoClusters bool
	// Config is the part of the configuration file that the test sets, as YAML: "controllers: {…}".
	Config string
	// Configure changes the configuration after defaults are set. It may set values that the validation would refuse.
	Configure func(*config.ResourceManagerConfiguration)
	// EverySourceNamespace makes the binary serve all namespaces of the source, not only the namespace of the Env.
	EverySourceNamespace bool
	// Stopped is true if New must not start the binary.
	Stopped bool
	// Clock is the clock of the binary; nil means the real one.
	Clock clock.WithTickerAndDelayedExecution
	// Log receives the log of the binary; the zero value discards it.
	Log logr.Logger
}

// Env is a running binary, with a namespace in source and target.
type Env struct {
	*WithT
	*Process[*config.ResourceManagerConfiguration]
	T   *testing.T
	Ctx context.Context //nolint:containedctx // it is the context of the test, and an Env lives as long as its test
	// Namespace is the name of the namespace in source and target. The binary's ServiceAccount is in it.
	Namespace string
	// Source and Target are clients of an administrator without caches. Without TwoClusters they are the same.
	Source, Target client.Client
	// Servers are the API servers of the test run.
	Servers local.Servers
	// Kubeconfigs are the kubeconfigs of the binary's ServiceAccount; Target is nil without TwoClusters.
	Kubeconfigs struct{ Source, Target []byte }

	binary  Binary
	options Options
}

// New creates the namespaces and rights, and starts the binary unless Options.Stopped is set.
func New(t *testing.T, binary Binary, options Options) *Env {
	t.Helper()
	servers := Servers(t)
	g := NewWithT(t)
	e := &Env{WithT: g, T: t, Ctx: t.Context(), Servers: servers, binary: binary, options: options}
	e.Source = e.admin(servers.Source.Config)
	e.Target = e.Source
	if options.TwoClusters {
		e.Target = e.admin(servers.Target.Config)
	}
	var err error
	e.Namespace, err = CreateNamespace(e.Ctx, "test-", e.Source, e.Target)
	g.Expect(err).NotTo(HaveOccurred())
	sides := []Side{Source, Target}
	if options.TwoClusters {
		sides = []Side{Source}
		e.Kubeconfigs.Target = e.identity(e.Target, servers.Target.Config, Target)
	}
	e.Kubeconfigs.Source = e.identity(e.Source, servers.Source.Config, sides...)
	e.Process = e.process(e.configuration(), options)
	if !options.Stopped {
		e.Start()
	}
	t.Cleanup(e.end)
	return e
}

// end stops the binary and removes its rights.
func (e *Env) end() {
	e.Stop()
	ctx := context.WithoutCancel(e.Ctx)
	e.Expect(Unbind(ctx, e.Source, e.Namespace)).To(Succeed())
	if e.Target != e.Source {
		e.Expect(Unbind(ctx, e.Target, e.Namespace)).To(Succeed())
	}
}

// Another returns a second, stopped process for the same namespaces and with the same rights. It has its own configuration, uses the clock
// and log of the options, and counts its own requests.
func (e *Env) Another(cfg *config.ResourceManagerConfiguration, options Options) *Env {
	other := *e
	other.options, other.Process = options, e.process(cfg, options)
	return &other
}

// StartAnother starts a second process with the configuration of the first one, modified by change. It stops when the test ends.
func (e *Env) StartAnother(change func(*config.ResourceManagerConfiguration)) *Env {
	e.T.Helper()
	cfg := *e.Config
	change(&cfg)
	other := e.Another(&cfg, e.options)
	other.Start()
	e.T.Cleanup(other.Stop)
	return other
}

func (e *Env) process(cfg *config.ResourceManagerConfiguration, options Options) *Process[*config.ResourceManagerConfiguration] {
	p := e.binary.process(e.T, cfg)
	p.Clock, p.Log = options.Clock, options.Log
	return p
}

func (e *Env) admin(cfg *rest.Config) client.Client {
	needs, err := e.binary.Needs(&config.ResourceManagerConfiguration{})
	e.Expect(err).NotTo(HaveOccurred())
	c, err := client.New(cfg, client.Options{Scheme: needs.Scheme})
	e.Expect(err).NotTo(HaveOccurred())
	return c
}

// CreateNamespace creates a namespace with a generated name in source and target, which may be one cluster.
func CreateNamespace(ctx context.Context, prefix string, source, target client.Client) (string, error) {
	namespace := &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{GenerateName: prefix}}
	if err := source.Create(ctx, namespace); err != nil {
		return "", fmt.Errorf("create namespace in source: %w", err)
	}
	if source != target {
		if err := target.Create(ctx, &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: namespace.Name}}); err != nil {
			return "", fmt.Errorf("create namespace in target: %w", err)
		}
	}
	return namespace.Name, nil
}

func (e *Env) identity(c client.Client, admin *rest.Config, sides ...Side) []byte {
	kubeconfig, err := Identity(e.Ctx, c, admin, e.binary.Name, e.Namespace, sides...)
	e.Expect(err).NotTo(HaveOccurred())
	return kubeconfig
}

func (e *Env) configuration() *config.ResourceManagerConfiguration {
	namespaces := ""
	if !e.options.EverySourceNamespace {
		namespaces = fmt.Sprintf(", namespaces: [%s]", e.Namespace)
	}
	text := fmt.Sprintf(`apiVersion: resourcemanager.config.gardener.cloud/v1alpha1
kind: ResourceManagerConfiguration
sourceClientConnection: {kubeconfig: %q%s}
leaderElection: {leaderElect: false}
%s
`, WriteKubeconfig(e.T, e.Kubeconfigs.Source), namespaces, e.options.Config)
	if e.options.TwoClusters {
		text += fmt.Sprintf("targetClientConnection: {kubeconfig: %q}\n", WriteKubeconfig(e.T, e.Kubeconfigs.Target))
	}
	cfg, warnings, err := config.ResourceManager([]byte(text))
	e.Expect(err).NotTo(HaveOccurred())
	e.Expect(warnings).To(BeEmpty())
	cfg.Server.Metrics, cfg.Server.HealthProbes = nil, nil
	if e.options.Configure != nil {
		e.options.Configure(cfg)
	}
	return cfg
}

// Events returns the Events about an object in the Env's namespace, in one cluster, as "type reason: note". It omits the Events of API
// servers that have repaired the allocation of Services' addresses and ports.
func (e *Env) Events(c client.Client, kind, name string) []string {
	e.T.Helper()
	list := &corev1.EventList{}
	e.Expect(c.List(e.Ctx, list, client.MatchingFields{"involvedObject.kind": kind, "involvedObject.name": name})).To(Succeed())
	var found []string
	for _, event := range list.Items {
		if strings.HasSuffix(event.ReportingController, "-repair-controller") || strings.HasSuffix(event.Source.Component, "-repair-controller") {
			continue
		}
		if event.InvolvedObject.Namespace == "" || event.InvolvedObject.Namespace == e.Namespace {
			found = append(found, fmt.Sprintf("%s %s: %s", event.Type, event.Reason, event.Message))
		}
	}
	return found
}

// AwaitRest waits until the binary has sent no request for a second, and clears the record of earlier requests. Changes by other clients,
// such as the controllers of Kubernetes, may make the binary read objects again.
func (e *Env) AwaitRest() {
	e.T.Helper()
	e.Eventually(func(g Gomega) {
		e.Requests.Reset()
		g.Consistently(e.Requests.Seen).WithTimeout(time.Second).Should(BeEmpty())
	}).WithTimeout(Patience).Should(Succeed())
}

// AwaitForbidden waits until the target's API server forbids something to the binary's ServiceAccount. API servers learn of changed roles
// by watches.
func (e *Env) AwaitForbidden(right authorizationv1.ResourceAttributes) {
	e.T.Helper()
	user := "system:serviceaccount:" + e.Namespace + ":" + e.binary.Name
	e.Eventually(func() (bool, error) { return Allowed(e.Ctx, e.Target, user, &right) }).WithTimeout(Patience).Should(BeFalse())
}
