package eviction_test

import (
	"context"
	"errors"
	"fmt"
	"os"
	"testing"
	"time"

	. "github.com/onsi/gomega"
	corev1 "k8s.io/api/core/v1"
	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	clientgoscheme "k8s.io/client-go/kubernetes/scheme"
	"k8s.io/client-go/rest"
	testingclock "k8s.io/utils/clock/testing"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/manager"
	metricsserver "sigs.k8s.io/controller-runtime/pkg/metrics/server"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"
	"sigs.k8s.io/yaml"

	operatorv1alpha1 "github.com/espalier-dev/espalier/api/operator/v1alpha1"
	"github.com/espalier-dev/espalier/internal/garden/component/crds"
	"github.com/espalier-dev/espalier/internal/garden/eviction"
	"github.com/espalier-dev/espalier/test/binary"
	"github.com/espalier-dev/espalier/test/local"
)

// The controller changes the VerticalPodAutoscalers of a whole cluster.
func TestMain(m *testing.M) { os.Exit(binary.WithOwnServer(m)) }

const (
	managed  = "autoscaling.gardener.cloud/eviction-requirements: managed-by-controller"
	never    = "eviction-requirements.autoscaling.gardener.cloud/downscale-restriction: never"
	inWindow = "eviction-requirements.autoscaling.gardener.cloud/downscale-restriction: in-maintenance-window-only, " +
		"shoot.gardener.cloud/maintenance-window: '220000+0100,230000+0100'"
	// onlyUpscale and other are eviction requirements.
	onlyUpscale = `[{"changeRequirement":"TargetHigherThanRequests","resources":["cpu","memory"]}]`
	other       = `[{"changeRequirement":"TargetLowerThanRequests","resources":["cpu"]}]`
)

// scene is an API server without controllers. The reconciler has the rights of the operator, and not those in the namespace of the Garden.
type scene struct {
	*WithT
	t          *testing.T
	ctx        context.Context
	admin      client.Client
	config     *rest.Config
	requests   *binary.Requests // of the reconciler
	clock      *testingclock.FakePassiveClock
	reconciler *eviction.Reconciler
	namespace  string
}

func newScene(t *testing.T) *scene {
	t.Helper()
	g := NewWithT(t)
	servers, err := local.ForTests()
	g.Expect(err).NotTo(HaveOccurred())
	scheme := runtime.NewScheme()
	for _, add := range []func(*runtime.Scheme) error{
		clientgoscheme.AddToScheme, operatorv1alpha1.AddToScheme, apiextensionsv1.AddToScheme,
	} {
		g.Expect(add(scheme)).To(Succeed())
	}
	s := &scene{
		WithT: g, t: t, ctx: t.Context(), requests: &binary.Requests{}, clock: testingclock.NewFakePassiveClock(at("12:00:00")),
	}
	s.admin, err = client.New(servers.Source.Config, client.Options{Scheme: scheme})
	g.Expect(err).NotTo(HaveOccurred())
	_, err = binary.Install(s.ctx, s.admin, "deploy/namespace/*.yaml", "deploy/garden-operator/namespace/*.yaml",
		"deploy/garden-operator/crds/*.yaml")
	g.Expect(err).NotTo(HaveOccurred())
	s.namespace = s.newNamespace("shoot-")
	s.config, err = binary.ConfigIn(s.ctx, s.admin, servers.Source.Config, "garden-operator", s.newNamespace("operator-"),
		client.ObjectKey{Namespace: "garden", Name: "espalier-garden-operator-garden"}, s.requests)
	g.Expect(err).NotTo(HaveOccurred())
	own, err := client.New(s.config, client.Options{Scheme: scheme})
	g.Expect(err).NotTo(HaveOccurred())
	s.reconciler = &eviction.Reconciler{Client: own, Clock: s.clock}
	return s
}

func (s *scene) newNamespace(prefix string) string {
	s.t.Helper()
	namespace := &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{GenerateName: prefix}}
	s.Expect(s.admin.Create(s.ctx, namespace)).To(Succeed())
	return namespace.Name
}

// at returns a time of the day in UTC.
func at(clock string) time.Time {
	t, err := time.Parse(time.RFC3339, "2026-06-01T"+clock+"Z")
	if err != nil {
		panic(err)
	}
	return t
}

// define installs the definitions of the vertical pod autoscaler that a Garden brings.
func (s *scene) define() {
	s.t.Helper()
	definitions, err := crds.VPA()
	s.Expect(err).NotTo(HaveOccurred())
	for _, each := range definitions {
		s.Expect(client.IgnoreAlreadyExists(s.admin.Create(s.ctx, each))).To(Succeed())
	}
	list := &unstructured.UnstructuredList{}
	list.SetAPIVersion("autoscaling.k8s.io/v1")
	list.SetKind("VerticalPodAutoscalerList")
	s.Eventually(func() error { return s.admin.List(s.ctx, list) }, binary.Patience).Should(Succeed())
}

func (s *scene) object(manifest string) *unstructured.Unstructured {
	s.t.Helper()
	o := &unstructured.Unstructured{}
	content, err := yaml.YAMLToJSON([]byte(manifest))
	s.Expect(err).NotTo(HaveOccurred())
	s.Expect(o.UnmarshalJSON(content)).To(Succeed())
	return o
}

// autoscaler creates a VerticalPodAutoscaler with labels, annotations and an update policy in YAML.
func (s *scene) autoscaler(labels, annotations, policy string) *unstructured.Unstructured {
	s.t.Helper()
	o := s.object(fmt.Sprintf(`{apiVersion: autoscaling.k8s.io/v1, kind: VerticalPodAutoscaler,
		metadata: {namespace: %s, generateName: etcd-, labels: {%s}, annotations: {%s}},
		spec: {targetRef: {apiVersion: druid.gardener.cloud/v1alpha1, kind: Etcd, name: etcd}, updatePolicy: %s}}`,
		s.namespace, labels, annotations, policy))
	s.Expect(s.admin.Create(s.ctx, o)).To(Succeed())
	return o
}

// policy returns the update policy of a VerticalPodAutoscaler, as JSON.
func (s *scene) policy(o client.Object) string {
	s.t.Helper()
	live := &unstructured.Unstructured{}
	live.SetGroupVersionKind(o.GetObjectKind().GroupVersionKind())
	s.Expect(s.admin.Get(s.ctx, client.ObjectKeyFromObject(o), live)).To(Succeed())
	found, _, err := unstructured.NestedMap(live.Object, "spec", "updatePolicy")
	s.Expect(err).NotTo(HaveOccurred())
	text, err := yaml.Marshal(found)
	s.Expect(err).NotTo(HaveOccurred())
	content, err := yaml.YAMLToJSON(text)
	s.Expect(err).NotTo(HaveOccurred())
	return string(content)
}

// patch merges a change in JSON into an object.
func (s *scene) patch(o client.Object, change string) {
	s.t.Helper()
	s.Expect(s.admin.Patch(s.ctx, o, client.RawPatch(types.MergePatchType, []byte(change)))).To(Succeed())
}

// reconcile reconciles an object twice, where the second time must not write. It returns the result of the first time.
func (s *scene) reconcile(o client.Object) (ctrl.Result, error) {
	s.t.Helper()
	request := ctrl.Request{NamespacedName: client.ObjectKeyFromObject(o)}
	result, err := s.reconciler.Reconcile(s.ctx, request)
	s.requests.Reset()
	_, _ = s.reconciler.Reconcile(s.ctx, request)
	s.Expect(s.requests.Writes()).To(BeEmpty())
	return result, err
}

func TestRequirementsFollowTheMaintenanceWindow(t *testing.T) {
	s := newScene(t)
	s.define()
	events := s.autoscaler(managed, inWindow, `{updateMode: Auto}`)
	for _, step := range []struct {
		clock  string
		after  time.Duration
		policy string
	}{
		{"20:59:58", 2 * time.Second, `{"evictionRequirements":` + onlyUpscale + `,"updateMode":"Auto"}`},
		{"21:00:00", time.Hour, `{"updateMode":"Auto"}`},
		{"21:59:59", time.Second, `{"updateMode":"Auto"}`},
		{"22:00:00", 23 * time.Hour, `{"evictionRequirements":` + onlyUpscale + `,"updateMode":"Auto"}`},
	} {
		s.clock.SetTime(at(step.clock))
		result, err := s.reconcile(events)
		s.Expect(err).NotTo(HaveOccurred(), step.clock)
		s.Expect(result).To(Equal(ctrl.Result{RequeueAfter: step.after}), step.clock)
		s.Expect(s.policy(events)).To(MatchJSON(step.policy), step.clock)
	}
}

func TestRequirementsWithoutAWindow(t *testing.T) {
	s := newScene(t)
	s.define()
	for sentence, tc := range map[string]struct {
		labels, annotations, policy string
		want, problem               string
	}{
		"never": {
			labels: managed, annotations: never, policy: `{updateMode: Auto}`,
			want: `{"evictionRequirements":` + onlyUpscale + `,"updateMode":"Auto"}`,
		},
		"an object without a policy": {labels: managed, annotations: never, policy: `null`, want: `{"evictionRequirements":` + onlyUpscale + `}`},
		"other requirements": {
			labels: managed, annotations: never, policy: `{evictionRequirements: ` + other + `}`,
			want: `{"evictionRequirements":` + onlyUpscale + `}`,
		},
		"a restriction that is not known": {
			labels: managed, annotations: "a: b", policy: `{evictionRequirements: ` + other + `}`, want: `{"evictionRequirements":` + other + `}`,
			problem: "downscale-restriction",
		},
		"a window that is missing": {
			labels: managed, annotations: "eviction-requirements.autoscaling.gardener.cloud/downscale-restriction: in-maintenance-window-only",
			policy: `{}`, want: `{"evictionRequirements":` + onlyUpscale + `}`, problem: "maintenance-window",
		},
		"an object without the label": {labels: "a: b", annotations: never, policy: `{updateMode: Auto}`, want: `{"updateMode":"Auto"}`},
		"another manager": {
			labels: "autoscaling.gardener.cloud/eviction-requirements: mine", annotations: never,
			policy: `{updateMode: Auto}`, want: `{"updateMode":"Auto"}`,
		},
	} {
		o := s.autoscaler(tc.labels, tc.annotations, tc.policy)
		result, err := s.reconcile(o)
		if tc.problem == "" {
			s.Expect(err).NotTo(HaveOccurred(), sentence)
		} else {
			s.Expect(err).To(MatchError(ContainSubstring(tc.problem)), sentence)
			s.Expect(errors.Is(err, reconcile.TerminalError(nil))).To(BeTrue(), sentence)
		}
		s.Expect(result).To(Equal(ctrl.Result{}), sentence)
		s.Expect(s.policy(o)).To(MatchJSON(tc.want), sentence)
	}

	gone := s.autoscaler(managed, never, `{updateMode: Auto}`)
	s.Expect(s.admin.Delete(s.ctx, gone)).To(Succeed())
	_, err := s.reconcile(gone)
	s.Expect(err).NotTo(HaveOccurred())
}

// A running controller begins to watch when the Garden has brought the kind, and then follows changes and the edges of windows.
func TestControllerFollowsAutoscalersOfAGarden(t *testing.T) {
	s := newScene(t)
	s.undefine()
	garden := &operatorv1alpha1.Garden{}
	s.Expect(yaml.UnmarshalStrict([]byte(`
metadata: {name: eviction}
spec:
  runtimeCluster:
    ingress: {domains: [{name: ingress.example.com}], controller: {kind: nginx}}
    networking: {pods: [10.2.0.0/16], services: [10.3.0.0/16]}
    provider: {}
  virtualCluster:
    dns: {domains: [{name: example.com}]}
    gardener: {clusterIdentity: garden-1}
    kubernetes: {version: 1.36.1}
    maintenance: {timeWindow: {begin: 220000+0100, end: 230000+0100}}
    networking: {services: [100.64.0.0/13]}
`), garden)).To(Succeed())
	s.Eventually(func() error { return s.admin.Create(s.ctx, garden) }, binary.Patience).Should(Succeed())
	s.run()
	s.define()
	s.clock.SetTime(at("20:59:59"))
	events, unmanaged := s.autoscaler(managed, inWindow, `{updateMode: Auto}`), s.autoscaler("a: b", never, `{updateMode: Auto}`)
	policy := func() string { return s.policy(events) }
	restricted := MatchJSON(`{"evictionRequirements":` + onlyUpscale + `,"updateMode":"Auto"}`)
	free := MatchJSON(`{"updateMode":"Auto"}`)
	s.Eventually(func() string {
		s.patch(garden, `{"metadata":{"annotations":{"touched":"`+time.Now().String()+`"}}}`) // as the operator changes its status
		return policy()
	}, binary.Patience).Should(restricted)

	s.clock.SetTime(at("21:00:00"))
	s.Eventually(policy, binary.Patience).Should(free, "the controller asked to be called at that time")
	s.patch(events, `{"metadata":{"annotations":{"shoot.gardener.cloud/maintenance-window":"000000+0100,010000+0100"}}}`)
	s.Eventually(policy, binary.Patience).Should(restricted, "another window")
	s.patch(events, `{"spec":{"updatePolicy":{"evictionRequirements":null}}}`)
	s.Eventually(policy, binary.Patience).Should(restricted, "another client has removed the requirements")
	s.Expect(s.policy(unmanaged)).To(free)
}

// undefine makes the API server not serve VerticalPodAutoscalers.
func (s *scene) undefine() {
	s.t.Helper()
	definition := &apiextensionsv1.CustomResourceDefinition{ObjectMeta: metav1.ObjectMeta{Name: "verticalpodautoscalers.autoscaling.k8s.io"}}
	s.Expect(client.IgnoreNotFound(s.admin.Delete(s.ctx, definition))).To(Succeed())
	s.Eventually(func() error { return s.admin.Get(s.ctx, client.ObjectKeyFromObject(definition), definition) }, binary.Patience).
		Should(MatchError(apierrors.IsNotFound, "IsNotFound"))
}

// run runs the controller until the test ends.
func (s *scene) run() {
	s.t.Helper()
	mgr, err := manager.New(s.config, manager.Options{Scheme: s.admin.Scheme(), Metrics: metricsserver.Options{BindAddress: "0"}})
	s.Expect(err).NotTo(HaveOccurred())
	controller := &eviction.Reconciler{Client: mgr.GetClient(), Clock: s.clock}
	s.Expect(controller.SetupWithManager(mgr)).To(Succeed())
	done := make(chan error, 1)
	go func() { done <- mgr.Start(s.ctx) }()
	s.t.Cleanup(func() { s.Expect(<-done).To(Succeed()) }) // the context has ended
}
