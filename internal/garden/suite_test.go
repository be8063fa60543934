package garden_test

import (
	"context"
	"fmt"
	"os"
	"slices"
	"strings"
	"sync"
	"testing"

	. "github.com/onsi/gomega"
	"github.com/prometheus/client_golang/prometheus"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/client-go/rest"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/yaml"

	operatorv1alpha1 "github.com/espalier-dev/espalier/api/operator/v1alpha1"
	"github.com/espalier-dev/espalier/internal/admission/admissiontest"
	"github.com/espalier-dev/espalier/internal/config"
	"github.com/espalier-dev/espalier/internal/deployable"
	"github.com/espalier-dev/espalier/internal/garden"
	"github.com/espalier-dev/espalier/internal/garden/components"
	"github.com/espalier-dev/espalier/internal/garden/gardentest"
	"github.com/espalier-dev/espalier/internal/process"
	"github.com/espalier-dev/espalier/test/binary"
	"github.com/espalier-dev/espalier/test/local"
)

func TestMain(m *testing.M) { os.Exit(binary.WithOwnServer(m)) }

// operator is the process with its shipped configuration, except for addresses, under its own role.
type operator struct {
	*WithT
	*binary.Process[*config.OperatorConfiguration]
	t        *testing.T
	admin    client.Client
	warnings *warnings
	// reconciles makes it run controllers too.
	reconciles bool
}

// warnings are the warnings that the administrator's client has received.
type warnings struct {
	mu   sync.Mutex
	list []string
}

// HandleWarningHeaderWithContext implements rest.WarningHandlerWithContext.
func (w *warnings) HandleWarningHeaderWithContext(_ context.Context, _ int, _, text string) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.list = append(w.list, text)
}

// take returns the warnings since the last call.
func (w *warnings) take() []string {
	w.mu.Lock()
	defer w.mu.Unlock()
	taken := w.list
	w.list = nil
	return taken
}

// identities are different namespaces for the ServiceAccounts of the tests, because all are bound to the same roles.
var identities int //nolint:gochecknoglobals // tests of this package run one after another

// newOperator starts the operator, and waits until the API server calls its webhooks.
func newOperator(t *testing.T) *operator {
	t.Helper()
	o := stoppedOperator(t)
	o.Start()
	o.awaitWebhooks()
	return o
}

func stoppedOperator(t *testing.T, changes ...func(*operator)) *operator {
	t.Helper()
	g := NewWithT(t)
	servers, err := local.ForTests()
	g.Expect(err).NotTo(HaveOccurred())
	cfg := shipped(t)
	o := &operator{WithT: g, t: t, warnings: &warnings{}}
	o.Process = binary.NewProcess(t, process.Program{Name: "garden-operator", Source: "runtime", KeepsLeaseName: true},
		process.Family[*config.OperatorConfiguration]{Needs: garden.Needs, Add: o.add}, cfg)
	for _, each := range changes {
		each(o)
	}
	needs, err := garden.Needs(cfg)
	g.Expect(err).NotTo(HaveOccurred())
	admin := rest.CopyConfig(servers.Source.Config)
	admin.WarningHandlerWithContext = o.warnings
	o.admin, err = client.NewWithWatch(admin, client.Options{Scheme: needs.Scheme})
	g.Expect(err).NotTo(HaveOccurred())
	_, err = binary.Install(
		t.Context(), o.admin, "deploy/namespace/*.yaml", "deploy/garden-operator/namespace/*.yaml", "deploy/garden-operator/crds/*.yaml",
		"deploy/garden-operator/base/priorityclass.yaml",
	)
	g.Expect(err).NotTo(HaveOccurred())
	g.Eventually(
		func() error { return o.admin.List(t.Context(), &operatorv1alpha1.GardenList{}) }, binary.Patience,
	).Should(Succeed())

	identities++
	account := &unstructured.Unstructured{}
	account.SetAPIVersion("v1")
	account.SetKind("Namespace")
	account.SetName(fmt.Sprintf("operator-%d", identities))
	g.Expect(o.admin.Create(t.Context(), account)).To(Succeed())
	kubeconfig, err := binary.Identity(t.Context(), o.admin, servers.Source.Config, "garden-operator", account.GetName(), binary.Source)
	g.Expect(err).NotTo(HaveOccurred())
	t.Cleanup(func() {
		g.Expect(binary.Unbind(context.WithoutCancel(t.Context()), o.admin, account.GetName())).To(Succeed())
	})
	cfg.RuntimeClientConnection.Kubeconfig = binary.WriteKubeconfig(t, kubeconfig)
	cfg.Server.Metrics, cfg.Server.HealthProbes = nil, nil
	port := admissiontest.FreePort(t)
	cfg.Server.Webhooks.BindAddress, cfg.Server.Webhooks.Port = "127.0.0.1", port
	cfg.Espalier.Garden.Webhooks.SelfManaged.URL = fmt.Sprintf("https://127.0.0.1:%d", port)
	t.Setenv("POD_NAMESPACE", "espalier-system")
	t.Cleanup(o.clear)
	return o
}

// add adds the webhooks, and the controllers if the operator reconciles.
func (o *operator) add(
	lifetime context.Context, clusters *process.Clusters, cfg *config.OperatorConfiguration, registry prometheus.Registerer,
) error {
	if o.reconciles {
		return garden.Add(lifetime, clusters, cfg, registry)
	}
	return garden.AddWebhooks(lifetime, clusters, cfg, registry)
}

// shipped returns the configuration that is shipped, without observability components, which take time.
func shipped(t *testing.T) *config.OperatorConfiguration {
	t.Helper()
	g := NewWithT(t)
	all := deployable.All()
	binary := all[slices.IndexFunc(all, func(b deployable.Binary) bool { return b.Name == "garden-operator" })]
	cfg, warned, err := config.Operator([]byte(binary.Config))
	g.Expect(err).NotTo(HaveOccurred())
	g.Expect(warned).To(BeEmpty())
	g.Expect(cfg.Validate()).To(BeEmpty())
	cfg.Espalier.Garden.SkipComponents = components.Skippable()
	return cfg
}

// awaitWebhooks waits until the API server calls both webhooks: one denies the Garden, and the other sets defaults in it.
func (o *operator) awaitWebhooks() {
	o.t.Helper()
	o.Eventually(func() error {
		probe := o.garden(`{metadata: {name: probe, finalizers: [gardener.cloud/operator]}}`)
		return o.admin.Create(o.t.Context(), probe, client.DryRunAll)
	}, binary.Patience).Should(MatchError(ContainSubstring("cannot be added on creation")))
	o.Eventually(func() (bool, error) {
		probe := o.garden(`{metadata: {name: probe}}`)
		err := o.admin.Create(o.t.Context(), probe, client.DryRunAll)
		_, found, _ := unstructured.NestedInt64(probe.Object, "spec", "virtualCluster", "kubernetes", "kubeAPIServer", "logging", "verbosity")
		return found, err
	}, binary.Patience).Should(BeTrue())
	o.warnings.take()
}

// clear stops the operator, and removes objects that would disturb the next test.
func (o *operator) clear() {
	o.Stop()
	ctx := context.Background()
	for _, kind := range []string{"MutatingWebhookConfiguration", "ValidatingWebhookConfiguration"} {
		configuration := &unstructured.Unstructured{}
		configuration.SetAPIVersion("admissionregistration.k8s.io/v1")
		configuration.SetKind(kind)
		configuration.SetName("gardener-operator")
		o.Expect(client.IgnoreNotFound(o.admin.Delete(ctx, configuration))).To(Succeed())
	}
	left := &operatorv1alpha1.GardenList{}
	o.Expect(o.admin.List(ctx, left)).To(Succeed())
	for i := range left.Items { // A test that failed can leave a Garden behind, which no operator finalizes now.
		o.Eventually(gardentest.Erase, binary.Patience).WithArguments(ctx, o.admin, &left.Items[i]).
			Should(Succeed(), "the API server has noticed that there are no webhooks")
	}
	o.Eventually(func() ([]operatorv1alpha1.Garden, error) {
		err := o.admin.List(ctx, left)
		return left.Items, err
	}, binary.Patience).Should(BeEmpty())
}

const validGarden = `
apiVersion: operator.gardener.cloud/v1alpha1
kind: Garden
metadata: {name: garden}
spec:
  runtimeCluster:
    ingress: {domains: [{name: ingress.example.com}], controller: {kind: nginx}}
    networking: {nodes: [10.1.0.0/16], pods: [10.2.0.0/16], services: [10.3.0.0/16]}
    provider: {zones: [a]}
  virtualCluster:
    dns: {domains: [{name: example.com}, {name: example.org}]}
    gardener: {clusterIdentity: garden-1}
    kubernetes: {version: 1.34.1}
    maintenance: {timeWindow: {begin: 220000+0100, end: 230000+0100}}
    networking: {services: [100.64.0.0/13]}
`

// garden returns a valid Garden with changes, each of which is a merge patch in YAML.
func (o *operator) garden(changes ...string) *unstructured.Unstructured {
	o.t.Helper()
	object := map[string]any{}
	o.Expect(yaml.Unmarshal([]byte(validGarden), &object)).To(Succeed())
	for _, change := range changes {
		patch := map[string]any{}
		o.Expect(yaml.Unmarshal([]byte(change), &patch)).To(Succeed(), change)
		merge(object, patch)
	}
	return &unstructured.Unstructured{Object: object}
}

func merge(into, patch map[string]any) {
	for key, value := range patch {
		fields, isObject := value.(map[string]any)
		existing, ok := into[key].(map[string]any)
		switch {
		case isObject && ok:
			merge(existing, fields)
		case value == nil:
			delete(into, key)
		default:
			into[key] = value
		}
	}
}

// created creates a Garden.
func (o *operator) created(changes ...string) *unstructured.Unstructured {
	o.t.Helper()
	created := o.garden(changes...)
	o.Expect(o.admin.Create(o.t.Context(), created)).To(Succeed())
	return created
}

// change sends a merge patch in YAML for a Garden, and returns the error.
func (o *operator) change(object client.Object, patch string, options ...client.PatchOption) error {
	o.t.Helper()
	encoded, err := yaml.YAMLToJSON([]byte(patch))
	o.Expect(err).NotTo(HaveOccurred(), patch)
	return o.admin.Patch(o.t.Context(), object, client.RawPatch("application/merge-patch+json", encoded), options...)
}

// denial returns the message of a denied request, without the name of the webhook.
func denial(err error) string {
	if err == nil {
		return ""
	}
	_, message, _ := strings.Cut(err.Error(), "denied the request: ")
	return message
}
