package eviction_test

import (
	"errors"
	"fmt"
	"os"
	"testing"
	"time"

	. "github.com/onsi/gomega"
	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/types"
	testingclock "k8s.io/utils/clock/testing"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/manager"
	metricsserver "sigs.k8s.io/controller-runtime/pkg/metrics/server"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"
	"sigs.k8s.io/yaml"

	"github.com/espalier-dev/espalier/internal/garden/component/crds"
	"github.com/espalier-dev/espalier/internal/garden/eviction"
	"github.com/espalier-dev/espalier/internal/garden/gardentest"
	"github.com/espalier-dev/espalier/test/binary"
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
	*gardentest.Place
	clock      *testingclock.FakePassiveClock
	reconciler *eviction.Reconciler
	// namespace is the namespace of the autoscalers.
	namespace string
}

func newScene(t *testing.T) *scene {
	t.Helper()
	p := gardentest.New(t, binary.Servers(t).Source.Config, "operator-", "deploy/namespace/*.yaml", "deploy/garden-operator/namespace/*.yaml")
	s := &scene{Place: p, clock: testingclock.NewFakePassiveClock(at("12:00:00")), namespace: p.NewNamespace("shoot-")}
	s.reconciler = &eviction.Reconciler{Client: p.Operator, Clock: s.clock}
	return s
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
	s.T.Helper()
	definitions, err := crds.VPA()
	s.Expect(err).NotTo(HaveOccurred())
	for _, each := range definitions {
		s.Expect(client.IgnoreAlreadyExists(s.Admin.Create(s.Ctx, each))).To(Succeed())
	}
	s.AwaitServed(gardentest.List("autoscaling.k8s.io/v1", "VerticalPodAutoscaler"))
}

// autoscaler creates a VerticalPodAutoscaler with labels, annotations and an update policy in YAML.
func (s *scene) autoscaler(labels, annotations, policy string) *unstructured.Unstructured {
	s.T.Helper()
	o := binary.Object(s, fmt.Sprintf(`{apiVersion: autoscaling.k8s.io/v1, kind: VerticalPodAutoscaler,
		metadata: {namespace: %s, generateName: etcd-, labels: {%s}, annotations: {%s}},
		spec: {targetRef: {apiVersion: druid.gardener.cloud/v1alpha1, kind: Etcd, name: etcd}, updatePolicy: %s}}`,
		s.namespace, labels, annotations, policy))
	s.Expect(s.Admin.Create(s.Ctx, o)).To(Succeed())
	return o
}

// policy returns the update policy of a VerticalPodAutoscaler, as JSON.
func (s *scene) policy(o client.Object) string {
	s.T.Helper()
	live := &unstructured.Unstructured{}
	live.SetGroupVersionKind(o.GetObjectKind().GroupVersionKind())
	s.Expect(s.Admin.Get(s.Ctx, client.ObjectKeyFromObject(o), live)).To(Succeed())
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
	s.T.Helper()
	s.Expect(s.Admin.Patch(s.Ctx, o, client.RawPatch(types.MergePatchType, []byte(change)))).To(Succeed())
}

// reconcile reconciles an object twice, where the second time must not write. It returns the result of the first time.
func (s *scene) reconcile(o client.Object) (ctrl.Result, error) {
	s.T.Helper()
	request := ctrl.Request{NamespacedName: client.ObjectKeyFromObject(o)}
	result, err := s.reconciler.Reconcile(s.Ctx, request)
	s.Requests.Reset()
	_, _ = s.reconciler.Reconcile(s.Ctx, request)
	s.Expect(s.Requests.Writes()).To(BeEmpty())
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
	s.Expect(s.Admin.Delete(s.Ctx, gone)).To(Succeed())
	_, err := s.reconcile(gone)
	s.Expect(err).NotTo(HaveOccurred())
}

// A running controller begins to watch when the Garden has brought the kind, and then follows changes and the edges of windows.
func TestControllerFollowsAutoscalersOfAGarden(t *testing.T) {
	s := newScene(t)
	s.undefine()
	garden := s.CreateGarden("{}")
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
	s.T.Helper()
	definition := &apiextensionsv1.CustomResourceDefinition{ObjectMeta: metav1.ObjectMeta{Name: "verticalpodautoscalers.autoscaling.k8s.io"}}
	s.Expect(client.IgnoreNotFound(s.Admin.Delete(s.Ctx, definition))).To(Succeed())
	s.Eventually(func() error { return s.Admin.Get(s.Ctx, client.ObjectKeyFromObject(definition), definition) }, binary.Patience).
		Should(MatchError(apierrors.IsNotFound, "IsNotFound"))
}

// run runs the controller until the test ends.
func (s *scene) run() {
	s.T.Helper()
	mgr, err := manager.New(s.Config, manager.Options{Scheme: s.Admin.Scheme(), Metrics: metricsserver.Options{BindAddress: "0"}})
	s.Expect(err).NotTo(HaveOccurred())
	controller := &eviction.Reconciler{Client: mgr.GetClient(), Clock: s.clock}
	s.Expect(controller.SetupWithManager(mgr)).To(Succeed())
	done := make(chan error, 1)
	go func() { done <- mgr.Start(s.Ctx) }()
	s.T.Cleanup(func() { s.Expect(<-done).To(Succeed()) }) // the context has ended
}
