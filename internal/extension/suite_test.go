package extension_test

import (
	"context"
	"encoding/base64"
	"flag"
	"fmt"
	"os"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	. "github.com/onsi/gomega"
	"github.com/prometheus/client_golang/prometheus"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/client-go/rest"
	"k8s.io/utils/clock"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/yaml"

	corev1beta1 "github.com/espalier-dev/espalier/api/core/v1beta1"
	resourcesv1alpha1 "github.com/espalier-dev/espalier/api/resources/v1alpha1"
	"github.com/espalier-dev/espalier/internal/chart"
	"github.com/espalier-dev/espalier/internal/chart/charttest"
	"github.com/espalier-dev/espalier/internal/config"
	"github.com/espalier-dev/espalier/internal/extension"
	"github.com/espalier-dev/espalier/internal/process"
	"github.com/espalier-dev/espalier/test/binary"
	"github.com/espalier-dev/espalier/test/local"
	"github.com/espalier-dev/espalier/test/local/standin"
)

func TestMain(m *testing.M) {
	// Most tests wait for API servers, among others five seconds for each namespace that is deleted.
	if err := flag.Set("test.parallel", "8"); err != nil {
		panic(err)
	}
	os.Exit(binary.Serve(extension.Renderer(), func() int { return binary.WithOwnServers(m) }))
}

const (
	server = "https://garden.example.org"
	// manager is the field manager of the controllers.
	manager = "espalier-extension-controller"
)

// fixture runs the controllers against two API servers: the source is the cluster of the Seed, the target the garden. Each fixture has its
// own Seed, so that tests run in parallel, except for tests that change objects on which the installations of all Seeds depend.
type fixture struct {
	*WithT
	*binary.Runner
	T        *testing.T
	Ctx      context.Context
	Seed     client.WithWatch
	Garden   client.WithWatch
	Requests *binary.Requests
	Settings extension.Settings
	// seed is the name of the Seed, which no other test uses.
	seed string
	// name is the name of the installation, the registration and the deployment, which no other test uses.
	name string
	// account is the namespace of the process's ServiceAccount in both clusters.
	account string
	// kubeconfigs are for the ServiceAccount, which has the shipped roles.
	kubeconfigs struct{ seed, garden []byte }
}

// options change a fixture before the controllers start.
type option func(*fixture)

func newFixture(t *testing.T, options ...option) *fixture {
	t.Helper()
	servers := binary.Servers(t)
	g := NewWithT(t)
	f := &fixture{WithT: g, T: t, Ctx: t.Context(), Requests: &binary.Requests{}, name: fmt.Sprintf("shop-%d", next())}
	f.seed = fmt.Sprintf("south-%d", next())
	f.Seed, f.Garden = f.admin(servers.Source), f.admin(servers.Target)
	f.Settings = extension.Settings{
		SeedName: f.seed, GardenerVersion: "1.149.3", Garden: &rest.Config{Host: server}, Sandbox: chart.NewSandbox(),
		FeatureGates: map[string]bool{"DefaultSeccompProfile": true}, CareSyncPeriod: time.Hour,
	}
	f.Settings.Garden.CAData = []byte("authority")
	charttest.Ease(&f.Settings.Sandbox.Memory, &f.Settings.Sandbox.Time)
	for _, each := range options {
		each(f)
	}
	f.install()
	f.identify(servers)
	f.Runner = &binary.Runner{
		Test: t,
		Setup: func() *process.Setup {
			return &process.Setup{
				Program: process.Program{Name: "extension-controller", Source: "seed"}, Config: f.configuration(),
				WrapTransport: f.Requests.Wrap,
			}
		},
		Needs: func() (process.Needs, error) { return extension.Needs(f.Settings), nil },
		Add: func(_ context.Context, clusters *process.Clusters) error {
			return extension.Add(extension.Clusters{
				Seed: clusters.Source, Garden: clusters.Target, FieldManager: manager, Clock: clock.RealClock{},
			}, f.Settings, prometheus.NewRegistry())
		},
	}
	f.Start()
	t.Cleanup(f.end)
	return f
}

var counter struct {
	sync.Mutex
	last int
}

func next() int {
	counter.Lock()
	defer counter.Unlock()
	counter.last++
	return counter.last
}

func (f *fixture) admin(server local.Server) client.WithWatch {
	c, err := client.NewWithWatch(server.Config, client.Options{Scheme: extension.Scheme()})
	f.Expect(err).NotTo(HaveOccurred())
	return c
}

// identify creates the ServiceAccount of the process in both clusters.
func (f *fixture) identify(servers local.Servers) {
	f.T.Helper()
	var err error
	f.account, err = binary.CreateNamespace(f.Ctx, "account-", f.Seed, f.Garden)
	f.Expect(err).NotTo(HaveOccurred())
	const name = "extension-controller"
	f.kubeconfigs.seed, err = binary.Identity(f.Ctx, f.Seed, servers.Source.Config, name, f.account, binary.Source)
	f.Expect(err).NotTo(HaveOccurred())
	f.kubeconfigs.garden, err = binary.Identity(f.Ctx, f.Garden, servers.Target.Config, name, f.account, binary.Target)
	f.Expect(err).NotTo(HaveOccurred())
}

func (f *fixture) configuration() config.Process {
	second := metav1.Duration{Duration: time.Second}
	return config.Process{
		Source:         config.ClientConnection{Kubeconfig: binary.WriteKubeconfig(f.T, f.kubeconfigs.seed)},
		Target:         &config.ClientConnection{Kubeconfig: binary.WriteKubeconfig(f.T, f.kubeconfigs.garden)},
		LeaderElection: config.LeaderElection{LeaderElect: ptr.To(false), LeaseDuration: second, RenewDeadline: second, RetryPeriod: second},
		// The kinds of a cluster are there before the process.
		CacheSyncTimeout: binary.Patience,
	}
}

// prepared prepares both clusters for all tests.
var prepared sync.Once

// prepare creates the definitions and the namespaces, and takes the place of the controller of ManagedResources until the process ends.
func (f *fixture) prepare() {
	f.T.Helper()
	for _, each := range []struct {
		client  client.WithWatch
		pattern string
		list    client.ObjectList
	}{
		{f.Seed, "deploy/crds/*.yaml", &resourcesv1alpha1.ManagedResourceList{}},
		{f.Garden, "deploy/project-controller/crds/core.gardener.cloud_*.yaml", &corev1beta1.ControllerInstallationList{}},
		{f.Garden, "deploy/project-controller/crds/core.gardener.cloud_*.yaml", &corev1beta1.SeedList{}},
		{f.Garden, "deploy/project-controller/crds/core.gardener.cloud_*.yaml", &corev1beta1.ControllerDeploymentList{}},
	} {
		_, err := binary.Install(f.Ctx, each.client, each.pattern)
		f.Expect(err).NotTo(HaveOccurred())
		f.Eventually(func() error { return each.client.List(f.Ctx, each.list) }, binary.Patience).Should(Succeed())
	}
	f.ensure(f.Seed, `{apiVersion: v1, kind: Namespace, metadata: {name: garden}}`)
	f.ensure(f.Garden, `{apiVersion: v1, kind: Namespace, metadata: {name: garden}}`)
	f.ensure(f.Garden, `{apiVersion: v1, kind: ConfigMap, `+
		`metadata: {namespace: kube-system, name: cluster-identity}, data: {cluster-identity: eden}}`)
	player := standin.Player{
		Client: f.Seed, Parts: []standin.Part{standin.ManagedResources()}, Failed: sets.fail,
		Idle: func(string) bool { return sets.held.Load() },
	}
	go player.Play(context.Background())
}

// sets is the state of the stand-in for the controller of ManagedResources, which all tests share.
var sets struct {
	player
	// held keeps ManagedResources from becoming healthy.
	held atomic.Bool
}

// player keeps the errors of a stand-in.
type player struct {
	sync.Mutex
	errs []error
}

func (p *player) fail(err error) {
	p.Lock()
	defer p.Unlock()
	p.errs = append(p.errs, err)
}

func (p *player) failures() []error {
	p.Lock()
	defer p.Unlock()
	return slices.Clone(p.errs)
}

// install creates the Seed with its identity.
func (f *fixture) install() {
	f.T.Helper()
	prepared.Do(f.prepare)
	f.ensure(f.Garden, `{apiVersion: v1, kind: Namespace, metadata: {name: seed-`+f.seed+`}}`)
	f.ensure(f.Garden, `
apiVersion: core.gardener.cloud/v1beta1
kind: Seed
metadata: {name: `+f.seed+`, labels: {colour: blue}}
spec:
  provider: {type: local, region: here, zones: [a, b]}
  ingress: {domain: ingress.south}
  networks: {pods: 10.0.0.0/16, blockCIDRs: [169.254.169.254/32]}
  taints: [{key: seed.gardener.cloud/protected}]
  settings: {scheduling: {visible: false}}
  volume: {providers: [{name: disk, purpose: etcd}]}
  future: {field: kept}
`)
	seed := &corev1beta1.Seed{ObjectMeta: metav1.ObjectMeta{Name: f.seed}}
	f.Expect(f.Garden.Status().Patch(f.Ctx, seed, client.RawPatch("application/merge-patch+json",
		[]byte(`{"status":{"clusterIdentity":"eden-south"}}`)))).To(Succeed())
}

// ensure creates an object unless it exists.
func (f *fixture) ensure(c client.Client, text string) {
	f.T.Helper()
	f.Expect(client.IgnoreAlreadyExists(c.Create(f.Ctx, f.object(text)))).To(Succeed())
}

func (f *fixture) object(text string) *unstructured.Unstructured {
	f.T.Helper()
	o := &unstructured.Unstructured{}
	f.Expect(yaml.Unmarshal([]byte(text), &o.Object)).To(Succeed())
	return o
}

// end stops the controllers, and deletes their rights and the installations of the test.
func (f *fixture) end() {
	f.Stop()
	ctx := context.Background()
	f.Expect(binary.Unbind(ctx, f.Seed, f.account)).To(Succeed())
	f.Expect(binary.Unbind(ctx, f.Garden, f.account)).To(Succeed())
	f.forget(ctx)
	f.Expect(sets.failures()).To(BeEmpty())
}

// forget deletes the installations of the Seed. The objects of the installations remain in the cluster of the Seed: they have names that
// no other test uses.
func (f *fixture) forget(ctx context.Context) {
	f.T.Helper()
	list := &corev1beta1.ControllerInstallationList{}
	f.Expect(f.Garden.List(ctx, list)).To(Succeed())
	for i := range list.Items {
		ci := &list.Items[i]
		if ci.Spec.SeedRef.Name != f.seed {
			continue
		}
		release := client.RawPatch("application/merge-patch+json", []byte(`{"metadata":{"finalizers":null}}`))
		f.Expect(client.IgnoreNotFound(f.Garden.Patch(ctx, ci, release))).To(Succeed())
		f.Expect(client.IgnoreNotFound(f.Garden.Delete(ctx, ci))).To(Succeed())
	}
}

// files are the templates of a chart by their names.
type files map[string]string

// pack returns a chart with templates.
func (f *fixture) pack(templates files) []byte {
	f.T.Helper()
	content := charttest.Files{}
	for name, text := range templates {
		if name != "values.yaml" && !strings.Contains(name, "/") {
			name = "templates/" + name
		}
		content[name] = text
	}
	return charttest.Archive(f.T, content)
}

// deployment returns the ControllerDeployment of the test with a raw chart.
func (f *fixture) deployment(templates files, values string, inject bool) *unstructured.Unstructured {
	f.T.Helper()
	if values == "" {
		values = "{}"
	}
	return f.object(fmt.Sprintf(`
apiVersion: core.gardener.cloud/v1beta1
kind: ControllerDeployment
metadata: {name: %s}
type: helm
injectGardenKubeconfig: %t
providerConfig:
  chart: %s
  values: %s
`, f.name, inject, base64.StdEncoding.EncodeToString(f.pack(templates)), values))
}

// register creates a ControllerRegistration and a ControllerDeployment, and returns the installation of both, which is not created yet.
func (f *fixture) register(deployment *unstructured.Unstructured) *corev1beta1.ControllerInstallation {
	f.T.Helper()
	f.ensure(f.Garden, fmt.Sprintf(`{apiVersion: core.gardener.cloud/v1beta1, kind: ControllerRegistration, metadata: {name: %[1]s}, `+
		`spec: {resources: [{kind: DNSRecord, type: %[1]s}]}}`, f.name))
	f.Expect(f.Garden.Create(f.Ctx, deployment)).To(Succeed())
	return &corev1beta1.ControllerInstallation{
		ObjectMeta: metav1.ObjectMeta{Name: f.name},
		Spec: corev1beta1.ControllerInstallationSpec{
			RegistrationRef: corev1.ObjectReference{Name: f.name}, SeedRef: corev1.ObjectReference{Name: f.seed},
			DeploymentRef: &corev1.ObjectReference{Name: f.name},
		},
	}
}

// touch writes a new resource version of the ControllerDeployment into the installation, as gardener-controller-manager does. Then the
// controllers see that the ControllerDeployment has changed.
func (f *fixture) touch() {
	f.T.Helper()
	patch := fmt.Sprintf(`{"spec":{"deploymentRef":{"resourceVersion":"%d"}}}`, next())
	ci := &corev1beta1.ControllerInstallation{ObjectMeta: metav1.ObjectMeta{Name: f.name}}
	f.Expect(f.Garden.Patch(f.Ctx, ci, client.RawPatch("application/merge-patch+json", []byte(patch)))).To(Succeed())
}

// condition returns a function that reads a condition of the installation as "status reason: message".
func (f *fixture) condition(kind corev1beta1.ConditionType) func() string {
	return func() string {
		ci := &corev1beta1.ControllerInstallation{}
		if err := f.Garden.Get(f.Ctx, client.ObjectKey{Name: f.name}, ci); err != nil {
			return err.Error()
		}
		condition := corev1beta1.GetCondition(ci.Status.Conditions, kind)
		if condition == nil {
			return ""
		}
		return fmt.Sprintf("%s %s: %s", condition.Status, condition.Reason, condition.Message)
	}
}

func (f *fixture) awaitCondition(kind corev1beta1.ConditionType, text string) {
	f.T.Helper()
	f.Eventually(f.condition(kind)).WithTimeout(binary.Patience).Should(HavePrefix(text))
}

// contents returns the objects in the ManagedResource of the installation, by key.
func (f *fixture) contents() map[string]string {
	f.T.Helper()
	set := f.set()
	found := map[string]string{}
	for _, ref := range set.Spec.SecretRefs {
		secret := &corev1.Secret{}
		f.Expect(f.Seed.Get(f.Ctx, client.ObjectKey{Namespace: set.Namespace, Name: ref.Name}, secret)).To(Succeed())
		for key, value := range secret.Data {
			found[key] = string(value)
		}
	}
	return found
}

func (f *fixture) set() *resourcesv1alpha1.ManagedResource {
	f.T.Helper()
	set := &resourcesv1alpha1.ManagedResource{}
	f.Expect(f.Seed.Get(f.Ctx, client.ObjectKey{Namespace: "garden", Name: f.name}, set)).To(Succeed())
	return set
}

// get reads an object.
func get[T client.Object](f *fixture, c client.Reader, namespace, name string, into T) T {
	f.T.Helper()
	f.Expect(c.Get(f.Ctx, client.ObjectKey{Namespace: namespace, Name: name}, into)).To(Succeed())
	return into
}

// awaitRest waits until the controllers have sent no request for a second, and clears the record of requests.
func (f *fixture) awaitRest() {
	f.T.Helper()
	f.Eventually(func(g Gomega) {
		f.Requests.Reset()
		g.Consistently(f.Requests.Seen).WithTimeout(time.Second).Should(BeEmpty())
	}).WithTimeout(binary.Patience).Should(Succeed())
}

// secretNames returns the names of the Secrets in a namespace of the Seed's cluster.
func (f *fixture) secretNames(namespace string) []string {
	f.T.Helper()
	list := &corev1.SecretList{}
	f.Expect(f.Seed.List(f.Ctx, list, client.InNamespace(namespace))).To(Succeed())
	var names []string
	for i := range list.Items {
		names = append(names, list.Items[i].Name)
	}
	return names
}
