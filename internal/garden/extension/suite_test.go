package extension_test

import (
	"context"
	"os"
	"strings"
	"testing"

	. "github.com/onsi/gomega"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	clientgoscheme "k8s.io/client-go/kubernetes/scheme"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/events"
	"k8s.io/utils/clock"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/yaml"

	corev1beta1 "github.com/espalier-dev/espalier/api/core/v1beta1"
	operatorv1alpha1 "github.com/espalier-dev/espalier/api/operator/v1alpha1"
	resourcesv1alpha1 "github.com/espalier-dev/espalier/api/resources/v1alpha1"
	"github.com/espalier-dev/espalier/internal/chart"
	"github.com/espalier-dev/espalier/internal/chart/charttest"
	"github.com/espalier-dev/espalier/internal/garden/charts"
	"github.com/espalier-dev/espalier/internal/garden/extension"
	"github.com/espalier-dev/espalier/internal/garden/gardentest"
	"github.com/espalier-dev/espalier/internal/garden/lifecycle"
	"github.com/espalier-dev/espalier/test/binary"
	"github.com/espalier-dev/espalier/test/local"
)

// TestMain makes the test binary the program of the sandbox, too.
func TestMain(m *testing.M) {
	os.Exit(binary.Serve(charts.Renderer(), func() int { return binary.WithOwnServer(m) }))
}

// scene is an API server with a namespace in place of the namespace of the Garden, and a reconciler with the rights of the operator.
type scene struct {
	*WithT
	t          *testing.T
	ctx        context.Context
	admin      client.Client
	config     *rest.Config
	requests   *binary.Requests // of the reconciler
	reconciler *extension.Reconciler
	recorder   *events.FakeRecorder
	namespace  string
}

func newScene(t *testing.T) *scene {
	t.Helper()
	g := NewWithT(t)
	servers, err := local.ForTests()
	g.Expect(err).NotTo(HaveOccurred())
	scheme := runtime.NewScheme()
	for _, add := range []func(*runtime.Scheme) error{
		clientgoscheme.AddToScheme, operatorv1alpha1.AddToScheme, resourcesv1alpha1.AddToScheme,
	} {
		g.Expect(add(scheme)).To(Succeed())
	}
	s := &scene{WithT: g, t: t, ctx: t.Context(), requests: &binary.Requests{}, recorder: events.NewFakeRecorder(100)}
	s.admin, err = client.New(servers.Source.Config, client.Options{Scheme: scheme})
	g.Expect(err).NotTo(HaveOccurred())
	_, err = binary.Install(s.ctx, s.admin, "deploy/garden-operator/crds/*.yaml", "deploy/crds/*.yaml")
	g.Expect(err).NotTo(HaveOccurred())
	for _, list := range []client.ObjectList{
		&operatorv1alpha1.GardenList{}, &operatorv1alpha1.ExtensionList{}, &resourcesv1alpha1.ManagedResourceList{},
	} {
		g.Eventually(func() error { return s.admin.List(s.ctx, list) }, binary.Patience).Should(Succeed())
	}
	namespace := &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{GenerateName: "extension-"}}
	g.Expect(s.admin.Create(s.ctx, namespace)).To(Succeed())
	s.namespace = namespace.Name
	s.config, err = binary.ConfigIn(s.ctx, s.admin, servers.Source.Config, "garden-operator", s.namespace,
		client.ObjectKey{Namespace: "garden", Name: "espalier-garden-operator-garden"}, s.requests)
	g.Expect(err).NotTo(HaveOccurred())
	t.Cleanup(func() {
		g.Expect(binary.Unbind(context.WithoutCancel(t.Context()), s.admin, s.namespace)).To(Succeed())
	})
	s.reconciler = s.reconcilerAnew()
	return s
}

// reconcilerAnew returns a reconciler after a restart.
func (s *scene) reconcilerAnew() *extension.Reconciler {
	s.t.Helper()
	live, err := client.NewWithWatch(s.config, client.Options{Scheme: s.admin.Scheme()})
	s.Expect(err).NotTo(HaveOccurred())
	sandbox := chart.NewSandbox()
	charttest.Ease(&sandbox.Memory, &sandbox.Time)
	return &extension.Reconciler{
		Client: live, Cluster: lifecycle.RuntimeCluster(live), Clock: clock.RealClock{}, Namespace: s.namespace, Workers: 1,
		Recorder: s.recorder,
		Charts:   charts.Charts{Reader: live, Namespace: s.namespace, Sandbox: sandbox, Kept: chart.NewCache(16)},
		Runtime:  func(context.Context) (string, []string, error) { return "1.36.1", nil, nil },
	}
}

const gardenSpec = `
  runtimeCluster:
    ingress: {domains: [{name: ingress.example.com}], controller: {kind: nginx}}
    networking: {pods: [10.2.0.0/16], services: [10.3.0.0/16]}
    provider: {zones: [a, b]}
  virtualCluster:
    dns: {domains: [{name: example.com}]}
    gardener: {clusterIdentity: garden-1}
    kubernetes: {version: 1.36.1}
    maintenance: {timeWindow: {begin: 220000+0100, end: 230000+0100}}
    networking: {services: [100.64.0.0/13]}
`

// garden creates a Garden, and removes it when the test ends.
func (s *scene) garden(state operatorv1alpha1.LastOperationState) *operatorv1alpha1.Garden {
	s.t.Helper()
	garden := &operatorv1alpha1.Garden{}
	s.Expect(yaml.UnmarshalStrict([]byte("metadata: {name: garden, finalizers: [test.local/kept], annotations: "+
		"{generic-token-kubeconfig.secret.gardener.cloud/name: generic-token-kubeconfig-12345678}}\nspec:"+gardenSpec), garden)).To(Succeed())
	s.Expect(s.admin.Create(s.ctx, garden)).To(Succeed())
	s.t.Cleanup(func() { s.erase(garden) })
	s.operation(garden, state)
	return garden
}

func (s *scene) operation(garden *operatorv1alpha1.Garden, state operatorv1alpha1.LastOperationState) {
	s.t.Helper()
	garden.Status.LastOperation = &operatorv1alpha1.LastOperation{
		Type: operatorv1alpha1.LastOperationReconcile, State: state, LastUpdateTime: metav1.Now(), Description: "-",
	}
	s.Expect(s.admin.Status().Update(s.ctx, garden)).To(Succeed())
}

func (s *scene) erase(object client.Object) {
	s.t.Helper()
	s.Expect(gardentest.Erase(context.Background(), s.admin, object)).To(Succeed())
}

// create creates an Extension named shop from its spec in YAML, and removes it when the test ends.
func (s *scene) create(spec string) {
	s.t.Helper()
	e := &operatorv1alpha1.Extension{}
	s.Expect(yaml.UnmarshalStrict([]byte("metadata: {name: shop}\nspec:\n"+spec), e)).To(Succeed(), spec)
	s.Expect(s.admin.Create(s.ctx, e)).To(Succeed())
	s.t.Cleanup(func() { s.erase(e) })
}

func (s *scene) get() *operatorv1alpha1.Extension {
	s.t.Helper()
	e := &operatorv1alpha1.Extension{}
	s.Expect(s.admin.Get(s.ctx, client.ObjectKey{Name: "shop"}, e)).To(Succeed())
	return e
}

// require sets the condition RequiredRuntime.
func (s *scene) require(status corev1beta1.ConditionStatus) {
	s.t.Helper()
	e := s.get()
	e.Status.Conditions = corev1beta1.MergeConditions(e.Status.Conditions, corev1beta1.UpdatedCondition(clock.RealClock{},
		corev1beta1.InitCondition(clock.RealClock{}, operatorv1alpha1.ExtensionRequiredRuntime), status, "Test", "test"))
	s.Expect(s.admin.Status().Update(s.ctx, e)).To(Succeed())
}

// reconcile reconciles until a run writes nothing, and returns the condition Installed as "status reason: message", and the error of the
// last run.
func (s *scene) reconcile() (string, error) {
	s.t.Helper()
	const enough = 8 // runs
	for range enough {
		e := &operatorv1alpha1.Extension{}
		if err := s.admin.Get(s.ctx, client.ObjectKey{Name: "shop"}, e); err != nil {
			s.Expect(client.IgnoreNotFound(err)).To(Succeed())
			return "gone", nil
		}
		s.requests.Reset()
		_, err := s.reconciler.Reconcile(s.ctx, e.DeepCopy())
		if len(s.requests.Writes()) > 0 {
			continue
		}
		found := corev1beta1.GetCondition(e.Status.Conditions, operatorv1alpha1.ExtensionInstalled)
		s.Expect(found).NotTo(BeNil())
		return string(found.Status) + " " + found.Reason + ": " + found.Message, err
	}
	s.t.Fatalf("each run writes something: %v", s.requests.Writes())
	return "", nil
}

// sets returns the names of the ManagedResources.
func (s *scene) sets() []string {
	s.t.Helper()
	list := &resourcesv1alpha1.ManagedResourceList{}
	s.Expect(s.admin.List(s.ctx, list, client.InNamespace(s.namespace))).To(Succeed())
	names := []string{}
	for _, each := range list.Items {
		names = append(names, each.Name)
	}
	return names
}

// apply makes a ManagedResource ready, as its controller does.
func (s *scene) apply(name string) {
	s.t.Helper()
	set := &resourcesv1alpha1.ManagedResource{}
	s.Expect(s.admin.Get(s.ctx, client.ObjectKey{Namespace: s.namespace, Name: name}, set)).To(Succeed())
	set.Status.ObservedGeneration = set.Generation
	for of, status := range map[corev1beta1.ConditionType]corev1beta1.ConditionStatus{
		resourcesv1alpha1.ResourcesApplied: "True", resourcesv1alpha1.ResourcesHealthy: "True", resourcesv1alpha1.ResourcesProgressing: "False",
	} {
		set.Status.Conditions = corev1beta1.MergeConditions(set.Status.Conditions, corev1beta1.UpdatedCondition(clock.RealClock{},
			corev1beta1.InitCondition(clock.RealClock{}, of), status, "Test", "test"))
	}
	s.Expect(s.admin.Status().Update(s.ctx, set)).To(Succeed())
}

// contents returns the manifests of a ManagedResource by file.
func (s *scene) contents(name string) map[string]string {
	s.t.Helper()
	set, secret := &resourcesv1alpha1.ManagedResource{}, &corev1.Secret{}
	s.Expect(s.admin.Get(s.ctx, client.ObjectKey{Namespace: s.namespace, Name: name}, set)).To(Succeed())
	s.Expect(set.Spec.SecretRefs).To(HaveLen(1))
	s.Expect(s.admin.Get(s.ctx, client.ObjectKey{Namespace: s.namespace, Name: set.Spec.SecretRefs[0].Name}, secret)).To(Succeed())
	files := map[string]string{}
	for file, content := range secret.Data {
		files[file] = string(content)
	}
	return files
}

// secret creates a Secret in the namespace of the Garden.
func (s *scene) secret(name string, data map[string]string) {
	s.t.Helper()
	s.Expect(s.admin.Create(s.ctx, &corev1.Secret{
		ObjectMeta: metav1.ObjectMeta{Namespace: s.namespace, Name: name}, StringData: data,
	})).To(Succeed())
}

// raw returns a chart as the value of rawChart.
func raw(t *testing.T, files charttest.Files) string {
	t.Helper()
	encoded, err := yaml.Marshal(charttest.Archive(t, files))
	NewWithT(t).Expect(err).NotTo(HaveOccurred())
	return strings.TrimSpace(string(encoded))
}
