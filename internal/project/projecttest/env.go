package projecttest

import (
	"context"
	"fmt"
	"strings"
	"testing"

	"github.com/go-logr/logr"
	. "github.com/onsi/gomega"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/rest"
	"k8s.io/utils/clock"
	"sigs.k8s.io/controller-runtime/pkg/client"
	ctrllog "sigs.k8s.io/controller-runtime/pkg/log"

	corev1beta1 "github.com/espalier-dev/espalier/api/core/v1beta1"
	"github.com/espalier-dev/espalier/internal/admission/registration"
	"github.com/espalier-dev/espalier/internal/config"
	"github.com/espalier-dev/espalier/internal/process"
	"github.com/espalier-dev/espalier/internal/project"
	"github.com/espalier-dev/espalier/test/binary"
	"github.com/espalier-dev/espalier/test/local"
)

// name is the name of the binary.
const name = "project-controller"

// Options configure an Env.
type Options struct {
	// Project is the section controllers.project as YAML.
	Project string
	// Settings is the section espalier.project as YAML.
	Settings string
	// Configure changes the defaulted configuration. It may set values that the validation rejects as too small.
	Configure func(*config.ControllerManagerConfiguration)
	// CRDs are the plural names of the kinds that are served; nil stands for all shipped ones. Projects are always served.
	CRDs []string
	// Webhooks makes the API server call the controller's webhooks while the controller runs. Register selects or changes them; nil stands
	// for all.
	Webhooks bool
	Register func([]registration.Webhook) []registration.Webhook
	// Stopped means that New does not start the controller.
	Stopped bool
	// HoldNamespaces prevents that deleted namespaces disappear, as if they had objects with finalizers.
	HoldNamespaces bool
	// Clock is the controller's clock; nil stands for the real one.
	Clock clock.WithTickerAndDelayedExecution
	// Log receives the log of the controller; the zero value discards it.
	Log logr.Logger
}

// Env is a running project-controller.
type Env struct {
	*WithT
	*binary.Process[*config.ControllerManagerConfiguration]
	T   *testing.T
	Ctx context.Context //nolint:containedctx // it is the context of the test, which an Env does not outlive
	// Namespace is the namespace of the controller's ServiceAccount.
	Namespace string
	// Admin is the client of a cluster administrator, without a cache.
	Admin client.WithWatch
	// Server is the configuration of connections to the API server, with the rights of an administrator.
	Server *rest.Config

	options Options
	// hooks is nil without webhooks.
	hooks *hooks
}

// New installs the CRDs, and starts the controller unless Stopped is set.
func New(t *testing.T, o Options) *Env {
	t.Helper()
	g := NewWithT(t)
	ctrllog.SetLogger(logr.Discard()) // messages of the library outside of the controller's own log
	servers, err := local.ForTests()
	g.Expect(err).NotTo(HaveOccurred())
	e := &Env{WithT: g, T: t, Ctx: t.Context(), Server: servers.Source.Config, options: o}
	needs, err := project.Needs(&config.ControllerManagerConfiguration{})
	g.Expect(err).NotTo(HaveOccurred())
	e.Admin, err = client.NewWithWatch(e.Server, client.Options{Scheme: needs.Scheme})
	g.Expect(err).NotTo(HaveOccurred())
	e.installCRDs()
	namespace := &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{GenerateName: "controller-"}}
	g.Expect(e.Admin.Create(e.Ctx, namespace)).To(Succeed())
	e.Namespace = namespace.Name
	e.Process = binary.NewProcess(t, process.Program{Name: name, Source: "garden"},
		process.Family[*config.ControllerManagerConfiguration]{Needs: project.Needs, Add: project.Add}, e.configuration())
	e.Clock, e.Log, e.Started, e.Stopping = o.Clock, o.Log, e.registerWebhooks, e.unregisterWebhooks
	t.Cleanup(e.clear)
	if !o.HoldNamespaces {
		e.releaseNamespaces()
	}
	if !o.Stopped {
		e.Start()
	}
	return e
}

func (e *Env) configuration() *config.ControllerManagerConfiguration {
	kubeconfig, err := binary.Identity(e.Ctx, e.Admin, e.Server, name, e.Namespace, binary.Source)
	e.Expect(err).NotTo(HaveOccurred())
	text := fmt.Sprintf(`apiVersion: controllermanager.config.gardener.cloud/v1alpha1
kind: ControllerManagerConfiguration
gardenClientConnection: {kubeconfig: %q}
leaderElection: {leaderElect: false}
controllers:
  project:%s
espalier:
  project:%s
`, binary.WriteKubeconfig(e.T, kubeconfig), section(e.options.Project), section(e.options.Settings))
	cfg, warnings, err := config.ControllerManager([]byte(text))
	e.Expect(err).NotTo(HaveOccurred())
	e.Expect(warnings).To(BeEmpty())
	e.Expect(cfg.Validate()).To(BeEmpty())
	cfg.Server.Metrics, cfg.Server.HealthProbes = nil, nil
	if e.options.Webhooks {
		e.configureWebhooks(cfg)
	}
	if e.options.Configure != nil {
		e.options.Configure(cfg)
	}
	return cfg
}

// section indents the content of a key.
func section(content string) string {
	if content == "" {
		return " {}"
	}
	return "\n    " + strings.ReplaceAll(strings.TrimRight(content, "\n"), "\n", "\n    ")
}

// clear stops the controller and deletes all Projects.
func (e *Env) clear() {
	e.Stop()
	ctx := context.Background()
	e.Expect(binary.Unbind(ctx, e.Admin, e.Namespace)).To(Succeed())
	list := &corev1beta1.ProjectList{}
	e.Expect(e.Admin.List(ctx, list)).To(Succeed())
	for i := range list.Items {
		p := &list.Items[i]
		e.Expect(client.IgnoreNotFound(e.Admin.Patch(ctx, p,
			client.RawPatch("application/merge-patch+json", []byte(`{"metadata":{"finalizers":null}}`))))).To(Succeed())
		e.Expect(client.IgnoreNotFound(e.Admin.Delete(ctx, p))).To(Succeed())
	}
}
