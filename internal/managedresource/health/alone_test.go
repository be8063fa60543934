package health_test

import (
	"context"
	"fmt"
	"io"
	"net/http"
	"sync"
	"testing"
	"time"

	"github.com/go-logr/logr"
	. "github.com/onsi/gomega"
	"github.com/prometheus/client_golang/prometheus"
	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/metadata"
	"k8s.io/client-go/rest"
	"k8s.io/utils/clock"
	testingclock "k8s.io/utils/clock/testing"
	"k8s.io/utils/ptr"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"

	corev1beta1 "github.com/espalier-dev/espalier/api/core/v1beta1"
	resourcesv1alpha1 "github.com/espalier-dev/espalier/api/resources/v1alpha1"
	"github.com/espalier-dev/espalier/internal/apply"
	"github.com/espalier-dev/espalier/internal/apply/observe"
	"github.com/espalier-dev/espalier/internal/config"
	"github.com/espalier-dev/espalier/internal/managedresource/health"
	. "github.com/espalier-dev/espalier/internal/managedresource/managedresourcetest"
	"github.com/espalier-dev/espalier/internal/process"
	"github.com/espalier-dev/espalier/test/local"
)

// ledger replaces the ManagedResource controller.
type ledger struct {
	unfinished, foreign bool
	written             string
	recreated           []resourcesv1alpha1.ObjectReference
	// open is how many more times Recreated reports that an object is being created again at the moment.
	open int
}

func (l *ledger) Concluded(types.NamespacedName) (string, bool) { return l.written, !l.unfinished }
func (l *ledger) Wrote(_ types.NamespacedName, version string)  { l.written = version }
func (l *ledger) Recreated(types.NamespacedName, time.Time) ([]resourcesv1alpha1.ObjectReference, bool) {
	l.open--
	return l.recreated, l.open >= 0
}

func (l *ledger) Reported(_ types.NamespacedName, refs []resourcesv1alpha1.ObjectReference) {
	l.recreated = l.recreated[len(refs):]
}
func (l *ledger) Responsible(*resourcesv1alpha1.ManagedResource) bool { return !l.foreign }

// gate delays the events of watches while it is closed.
type gate struct {
	next http.RoundTripper
	mu   sync.Mutex
	open chan struct{}
}

func (g *gate) shut() {
	g.mu.Lock()
	defer g.mu.Unlock()
	g.open = make(chan struct{})
}

func (g *gate) lift() {
	g.mu.Lock()
	defer g.mu.Unlock()
	if g.open != nil {
		close(g.open)
		g.open = nil
	}
}

func (g *gate) wait() {
	g.mu.Lock()
	open := g.open
	g.mu.Unlock()
	if open != nil {
		<-open
	}
}

// RoundTrip implements http.RoundTripper.
func (g *gate) RoundTrip(request *http.Request) (*http.Response, error) {
	response, err := g.next.RoundTrip(request)
	if err == nil && request.URL.Query().Get("watch") != "" {
		response.Body = &gated{response.Body, g}
	}
	return response, err
}

type gated struct {
	io.ReadCloser
	gate *gate
}

// Read implements io.Reader.
func (b *gated) Read(into []byte) (int, error) {
	n, err := b.ReadCloser.Read(into)
	b.gate.wait()
	return n, err
}

// alone is the health controller without the other controllers of the process: a test calls it, and writes to the clusters as the others
// would. The target is a separate cluster.
type alone struct {
	*Env
	reconciler *health.Reconciler
	ledger     *ledger
	clock      *testingclock.FakeClock
	gate       *gate
}

func newAlone(t *testing.T) *alone {
	t.Helper()
	t.Parallel()
	a := &alone{
		Env: New(t, Options{Stopped: true, TwoClusters: true}), ledger: &ledger{},
		clock: testingclock.NewFakeClock(clock.RealClock{}.Now()), gate: &gate{},
	}
	servers, err := local.ForTests()
	a.Expect(err).NotTo(HaveOccurred())
	connection := rest.CopyConfig(servers.Target.Config)
	connection.Wrap(func(next http.RoundTripper) http.RoundTripper {
		a.gate.next = next
		return a.gate
	})
	httpClient, err := rest.HTTPClientFor(connection)
	a.Expect(err).NotTo(HaveOccurred())
	mapper, err := process.NewMapper(connection, httpClient, clock.RealClock{}, time.Hour)
	a.Expect(err).NotTo(HaveOccurred())
	target, err := apply.NewTarget(connection, httpClient, mapper, 5, clock.RealClock{})
	a.Expect(err).NotTo(HaveOccurred())
	whole, err := observe.NewWholeObjects(connection, httpClient)
	a.Expect(err).NotTo(HaveOccurred())
	metadataClient, err := metadata.NewForConfigAndClient(connection, httpClient)
	a.Expect(err).NotTo(HaveOccurred())
	verdicts := health.NewVerdicts(a.clock, func(schema.GroupKind, string, string) []types.NamespacedName { return nil })
	pods := observe.NewPods(a.Ctx, observe.PodOptions{
		Client: metadataClient, OnChange: func(string, string) {}, Clock: clock.RealClock{},
		Log: logr.Discard(),
	})
	watcher := observe.New(a.Ctx, observe.Options{
		Client: metadataClient, Label: "resources.gardener.cloud/managed-by", Value: "gardener", Whole: whole, Pods: pods,
		OnChange: func(schema.GroupKind, string, string) {}, Clock: clock.RealClock{}, Log: logr.Discard(),
	})
	a.reconciler = &health.Reconciler{
		Source: a.Source, Target: target, TargetAs: func(string) (client.Reader, error) { return a.Target, nil },
		Watcher: watcher, Pods: pods, Whole: whole, Ledger: a.ledger, Verdicts: verdicts,
		Latency: health.NewMetrics(prometheus.NewRegistry(), a.Source, a.ledger.Responsible), Clock: a.clock,
		Config: config.HealthController{SyncPeriod: &metav1.Duration{Duration: time.Minute}},
		Own:    config.EspalierManagedResource{Kstatus: ptr.To(false)},
	}
	account(a.Env, true)
	t.Cleanup(a.gate.lift)
	return a
}

// set creates a set that was applied, with these objects in its status.
func (a *alone) set(name string, refs ...resourcesv1alpha1.ObjectReference) *resourcesv1alpha1.ManagedResource {
	a.T.Helper()
	mr := a.ManagedResource(name)
	a.Expect(a.Source.Create(a.Ctx, mr)).To(Succeed())
	mr.Status.Resources = refs
	mr.Status.Conditions = []corev1beta1.Condition{{
		Type: "ResourcesApplied", Status: "True", Reason: "ApplySucceeded", Message: "All resources are applied.",
		LastTransitionTime: metav1.NewTime(a.clock.Now()), LastUpdateTime: metav1.NewTime(a.clock.Now()),
	}}
	a.status(mr)
	return mr
}

func (a *alone) status(mr *resourcesv1alpha1.ManagedResource) {
	a.T.Helper()
	a.Expect(a.Source.Status().Update(a.Ctx, mr)).To(Succeed())
}

func (a *alone) ref(apiVersion, kind, namespace, name string) resourcesv1alpha1.ObjectReference {
	return resourcesv1alpha1.ObjectReference{ObjectReference: corev1.ObjectReference{
		APIVersion: apiVersion, Kind: kind, Namespace: namespace,
		Name: name,
	}}
}

// judge calls the controller.
func (a *alone) judge(name string) ctrl.Result {
	a.T.Helper()
	result, err := a.reconciler.Reconcile(a.Ctx, ctrl.Request{NamespacedName: types.NamespacedName{Namespace: a.Namespace, Name: name}})
	a.Expect(err).NotTo(HaveOccurred())
	return result
}

// verdict returns both conditions of a set as "status/reason: message".
func (a *alone) verdict(name string) [2]string {
	a.T.Helper()
	mr := a.Get(name)
	return [2]string{
		Condition(mr, "ResourcesHealthy") + ": " + Message(mr, "ResourcesHealthy"),
		Condition(mr, "ResourcesProgressing") + ": " + Message(mr, "ResourcesProgressing"),
	}
}

const (
	allHealthy   = "True/ResourcesHealthy: All resources are healthy."
	allRolledOut = "False/ResourcesRolledOut: All resources have been fully rolled out."
)

func TestAcceptance67Preconditions(t *testing.T) {
	a := newAlone(t)
	applied := func(status corev1beta1.ConditionStatus) func(*resourcesv1alpha1.ManagedResource) {
		return func(mr *resourcesv1alpha1.ManagedResource) { mr.Status.Conditions[0].Status = status }
	}
	number := 0
	for name, tc := range map[string]struct {
		ledger ledger
		change func(mr *resourcesv1alpha1.ManagedResource)
		judged bool
	}{
		"applied":             {judged: true},
		"another class":       {ledger: ledger{foreign: true}},
		"still in work":       {ledger: ledger{unfinished: true}},
		"without Applied":     {change: func(mr *resourcesv1alpha1.ManagedResource) { mr.Status.Conditions = nil }},
		"Applied Progressing": {change: applied("Progressing")},
		"Applied False":       {change: applied("False")},
		"ignored": {change: func(mr *resourcesv1alpha1.ManagedResource) {
			mr.Annotations = map[string]string{"resources.gardener.cloud/ignore": "1"}
		}},
	} {
		number++
		mr := a.set(fmt.Sprint("set-", number), a.ref("v1", "ServiceAccount", a.Namespace, "default"))
		if tc.change != nil {
			tc.change(mr)
			status := mr.Status
			a.Expect(a.Source.Update(a.Ctx, mr)).To(Succeed())
			mr.Status = status
			a.status(mr)
		}
		*a.ledger = tc.ledger
		a.Expect(a.judge(mr.Name)).To(Equal(map[bool]ctrl.Result{true: {RequeueAfter: time.Minute}}[tc.judged]), name)
		got := a.Get(mr.Name)
		a.Expect([]bool{Condition(got, "ResourcesHealthy") != "", Condition(got, "ResourcesProgressing") != ""}).
			To(Equal([]bool{tc.judged, tc.judged}), name)
	}
}

func TestAcceptance67OldConditionsStayWhileApplyingFails(t *testing.T) {
	a := newAlone(t)
	a.set("mr")
	a.judge("mr")
	mr := a.Get("mr")
	mr.Status.Resources = []resourcesv1alpha1.ObjectReference{a.ref("v1", "ConfigMap", a.Namespace, "missing")}
	mr.Status.Conditions[0].Status = "False"
	a.status(mr)
	a.judge("mr")
	a.Expect(a.verdict("mr")).To(Equal([2]string{allHealthy, allRolledOut}))
}

func TestAcceptance70And74MissingObjects(t *testing.T) {
	a := newAlone(t)
	ns := a.Namespace
	for name, tc := range map[string]struct {
		ref     resourcesv1alpha1.ObjectReference
		healthy string
	}{
		"configmap": {a.ref("v1", "ConfigMap", ns, "x"), "False/ConfigMapMissing: Required ConfigMap \"x\" in namespace \"" + ns +
			"\" is missing"},
		"deployment": {
			a.ref("apps/v1", "Deployment", ns, "x"),
			"False/DeploymentMissing: Required Deployment \"x\" in namespace \"" + ns + "\" is missing",
		},
		"cluster-scoped": {a.ref("v1", "Namespace", "", "x-"+ns), "False/NamespaceMissing: Required Namespace \"x-" + ns +
			"\" in namespace \"\" is missing"},
		"unregistered": {
			a.ref("resources.gardener.cloud/v1alpha1", "ManagedResource", ns, "x"),
			"False/ManagedResourceMissing: Required ManagedResource \"x\" in namespace \"" + ns + "\" is missing",
		},
		"unknown-group": {
			a.ref("unknown.example.com/v1", "Thing", ns, "x"),
			"False/ThingMissing: Required Thing \"x\" in namespace \"" + ns +
				"\" is missing: no matches for kind \"Thing\" in version \"unknown.example.com/v1\"",
		},
		"unknown-version": {
			a.ref("apps/v9", "Deployment", ns, "x"),
			"False/DeploymentMissing: Required Deployment \"x\" in namespace \"" + ns +
				"\" is missing: no matches for kind \"Deployment\" in version \"apps/v9\"",
		},
		"nothing-missing": {a.ref("v1", "Namespace", "", ns), allHealthy},
		"of-another-space": {
			a.ref("v1", "ServiceAccount", "kube-system", "x-"+ns),
			"False/ServiceAccountMissing: Required ServiceAccount \"x-" + ns + "\" in namespace \"kube-system\" is missing",
		},
	} {
		a.ledger.written = ""
		a.set(name, tc.ref)
		a.Expect(a.judge(name)).To(Equal(ctrl.Result{RequeueAfter: time.Minute}), name)
		a.Expect(a.verdict(name)).To(Equal([2]string{tc.healthy, allRolledOut}), name)
		before := a.Get(name).ResourceVersion
		a.judge(name)
		a.Expect(a.Get(name).ResourceVersion).To(Equal(before), name)
	}
}

func TestAnObjectWhoseVersionIsNotServedIsJudgedInAServedVersion(t *testing.T) {
	a := newAlone(t)
	a.Create(a.Fill(`{apiVersion: apps/v1, kind: Deployment, metadata: {name: x, namespace: $NS}, spec: {selector: {matchLabels: {a: b}},
  template: {metadata: {labels: {a: b}}, spec: {containers: [{name: a, image: a}]}}}}`))
	a.set("with-rule", a.ref("apps/v9", "Deployment", a.Namespace, "x"))
	a.judge("with-rule")
	a.Expect(a.verdict("with-rule")[0]).To(Equal(a.Fill(`False/DeploymentUnhealthy: Deployment "$NS/x" is unhealthy: observed generation ` +
		`outdated (0/1)`)))
	a.set("without-rule", a.ref("rbac.authorization.k8s.io/v9", "ClusterRole", "", "view"))
	a.judge("without-rule")
	a.Expect(a.verdict("without-rule")).To(Equal([2]string{allHealthy, allRolledOut}))
}

// If the result early of Judge is true, the ManagedResource controller waits before it writes the result of an apply, up to a timeout.
func TestHealthThatIsAboutToChangeIsReportedAsEarly(t *testing.T) {
	a := newAlone(t)
	a.Create(deploymentManifest(a.Env, "web", 0, "example.com/one", "labels: {resources.gardener.cloud/managed-by: gardener}"))
	a.set("mr", a.ref("apps/v1", "Deployment", a.Namespace, "web"))
	a.watch()
	type result struct {
		healthy string
		early   bool
	}
	user := ""
	judge := func(last bool) result {
		mr := a.Get("mr")
		if user != "" {
			mr.Annotations = map[string]string{resourcesv1alpha1.ServiceAccount: user}
		}
		next, early := a.reconciler.Judge(a.Ctx, types.NamespacedName{Namespace: a.Namespace, Name: "mr"}, mr, last)
		mr.Status.Conditions = next
		return result{Condition(mr, "ResourcesHealthy"), early}
	}
	soon(a.Env, func() result { return judge(false) }).Should(Equal(result{early: true}), "no controller has processed the Deployment")
	a.Expect(judge(true)).To(Equal(result{healthy: "False/DeploymentUnhealthy"}))
	user = "team"
	a.Expect(judge(false)).To(Equal(result{early: true}), "a set with a ServiceAccount waits, too")
	a.Expect(judge(true)).To(Equal(result{healthy: "False/HealthCheckError"}), "the ServiceAccount may not read the Deployment")
	complete(a.Env, "web", 1, 0)
	soon(a.Env, func() result { return judge(false) }).Should(Equal(result{healthy: "True/ResourcesHealthy"}))
	user = ""

	a.writeUnseen("web")
	a.Expect(judge(false)).To(Equal(result{early: true}), "the watch has not seen the write")
	a.Expect(judge(true)).To(Equal(result{}), "without the watch there is no result")
}

// The first fault in the order of status.resources determines the reason of the condition, whichever kind of problem it is.
func TestTheFirstCulpritMakesTheReason(t *testing.T) {
	a := newAlone(t)
	a.Create(podManifest(a.Env, "p"))
	a.set("mr", a.ref("v1", "ConfigMap", a.Namespace, "x"), a.ref("v1", "Pod", a.Namespace, "p"))
	a.judge("mr")
	a.Expect(a.verdict("mr")[0]).To(Equal(a.Fill(`False/ConfigMapMissing: Required ConfigMap "x" in namespace "$NS" is missing; ` +
		`Pod "$NS/p" is unhealthy: pod is in invalid phase "Pending" (expected one of ["Running" "Succeeded"])`)))
}

// The kind has a health rule, but the object does not have the structure that the rule expects.
func TestAnObjectThatCannotBeJudged(t *testing.T) {
	a := newAlone(t)
	a.Define("monitoring.coreos.com", "v1", "Alertmanager")
	a.Create(a.Fill(`{apiVersion: monitoring.coreos.com/v1, kind: Alertmanager, metadata: {name: odd, namespace: $NS}, status: ` +
		`{conditions: none}}`))
	a.set("mr", a.ref("monitoring.coreos.com/v1", "Alertmanager", a.Namespace, "odd"))
	a.judge("mr")
	mr := a.Get("mr")
	a.Expect(Condition(mr, "ResourcesHealthy")).To(Equal("False/HealthCheckError"))
	a.Expect(Message(mr, "ResourcesHealthy")).To(HavePrefix(a.Fill(`Error executing health check for Alertmanager "$NS/odd": `)))
}

// A message is written again if its facts change, and not because time passes.
func TestAgesAreNoNews(t *testing.T) {
	a := newAlone(t)
	a.Create(a.Fill("{apiVersion: v1, kind: Service, metadata: {name: lb, namespace: $NS}, spec: {type: LoadBalancer, ports: [{port: 80}]}}"))
	event := warning(a.Env, "Service", "lb")
	a.Expect(a.Target.Create(a.Ctx, event)).To(Succeed())
	a.set("mr", a.ref("v1", "Service", a.Namespace, "lb"))
	a.judge("mr")
	text := a.Fill(`False/ServiceUnhealthy: Service "$NS/lb" is unhealthy: service is missing ingress status` + "\n\n-> Events:\n")
	a.Expect(a.verdict("mr")[0]).To(And(HavePrefix(text), ContainSubstring("* cloud reported "))) // the API server may report an Event, too
	before := a.Get("mr")
	for range 3 {
		a.clock.Step(47 * time.Minute)
		a.judge("mr")
	}
	a.Expect(a.Get("mr").ResourceVersion).To(Equal(before.ResourceVersion))
	event.Count++
	a.Expect(a.Target.Update(a.Ctx, event)).To(Succeed())
	a.judge("mr")
	a.Expect(a.verdict("mr")[0]).To(MatchRegexp(`\* cloud reported \S+ ago \(x2 over \S+\): no quota$`))
}

func TestACacheBehindOurOwnWriteIsNotActedUpon(t *testing.T) {
	a := newAlone(t)
	mr := a.set("mr")
	a.ledger.written = mr.ResourceVersion + "0"
	a.Expect(a.judge("mr")).To(Equal(ctrl.Result{RequeueAfter: 20 * time.Millisecond}))
	a.Expect(Condition(a.Get("mr"), "ResourcesHealthy")).To(BeEmpty())

	a.clock.Step(6 * time.Second) // the source was restored from a backup: no cache will show that version
	a.Expect(a.judge("mr")).To(Equal(ctrl.Result{RequeueAfter: time.Minute}))
	a.Expect(Condition(a.Get("mr"), "ResourcesHealthy")).To(BeEmpty())
	a.ledger.written = "" // the ManagedResource controller has found that out
	a.Expect(a.judge("mr")).To(Equal(ctrl.Result{RequeueAfter: time.Minute}))
	a.Expect(Condition(a.Get("mr"), "ResourcesHealthy")).To(Equal("True/ResourcesHealthy"))
}

// watch starts a watch on the Deployments of the namespace.
func (a *alone) watch() {
	a.reconciler.Watcher.As("").Use(a.Ctx, types.NamespacedName{Name: "user"}, []observe.Need{{
		Resource: appsv1.SchemeGroupVersion.WithResource("deployments"), Kind: schema.GroupKind{Group: "apps", Kind: "Deployment"},
		Namespaced: true, Namespaces: []string{a.Namespace},
	}})
}

// writeUnseen stops all watches, and writes to a Deployment as the ManagedResource controller does.
func (a *alone) writeUnseen(name string) {
	a.T.Helper()
	a.gate.shut()
	live := &appsv1.Deployment{}
	a.Expect(a.Target.Get(a.Ctx, client.ObjectKey{Namespace: a.Namespace, Name: name}, live)).To(Succeed())
	live.Spec.Replicas = ptr.To(int32(3))
	a.Expect(a.Target.Update(a.Ctx, live)).To(Succeed())
	a.reconciler.Watcher.Record(schema.GroupKind{Group: "apps", Kind: "Deployment"},
		&metav1.PartialObjectMetadata{ObjectMeta: live.ObjectMeta})
}

// A verdict from before the last write of this process does not count. The controller waits for the watch, but not long.
func TestAWatchThatLagsBehindOurOwnWriteIsWaitedFor(t *testing.T) {
	a := newAlone(t)
	a.Create(deploymentManifest(a.Env, "web", 0, "example.com/one", "labels: {resources.gardener.cloud/managed-by: gardener}"))
	complete(a.Env, "web", 1, 0)
	a.set("mr", a.ref("apps/v1", "Deployment", a.Namespace, "web"))
	a.watch()
	soon(a.Env, func() [2]string { a.clock.Step(time.Second); a.judge("mr"); return a.verdict("mr") }).
		Should(Equal([2]string{allHealthy, allRolledOut}))

	a.writeUnseen("web")
	a.clock.Step(time.Second) // the conditions were just written
	before := a.Get("mr").ResourceVersion
	for range 3 {
		a.Expect(a.judge("mr")).To(Equal(ctrl.Result{RequeueAfter: time.Second}))
		a.clock.Step(time.Second)
	}
	a.Expect(a.Get("mr").ResourceVersion).To(Equal(before), "nothing is said that may be wrong")
	a.clock.Step(3 * time.Second)
	a.Expect(a.judge("mr")).To(Equal(ctrl.Result{RequeueAfter: time.Minute}))
	outdated := `Deployment "$NS/web" is unhealthy: observed generation outdated (1/2)`
	a.Expect(a.verdict("mr")[0]).To(Equal(a.Fill("False/DeploymentUnhealthy: " + outdated)))

	complete(a.Env, "web", 2, 0)
	a.gate.lift()
	soon(a.Env, func() string { a.clock.Step(time.Second); a.judge("mr"); return a.verdict("mr")[0] }).Should(Equal(allHealthy))
	a.Expect(a.verdict("mr")[1]).To(Equal(a.Fill(`True/DeploymentProgressing: Deployment "$NS/web" is progressing: there are still ` +
		`non-terminated old pods`)))
}

// A Deployment that no watch covers is read live, and its Pods too.
func TestDeploymentThatIsNotWatched(t *testing.T) {
	a := newAlone(t)
	a.Create(deploymentManifest(a.Env, "web", 0, "example.com/one"))
	complete(a.Env, "web", 1, 0)
	a.set("mr", a.ref("apps/v1", "Deployment", a.Namespace, "web"))
	a.judge("mr")
	a.Expect(a.verdict("mr")).To(Equal([2]string{allHealthy, allRolledOut}))
	a.Create(podManifest(a.Env, "old", "labels: {app: web}"))
	a.clock.Step(time.Second)
	a.judge("mr")
	a.Expect(a.verdict("mr")[1]).To(HaveSuffix("there are still non-terminated old pods"))
	a.clock.Step(time.Second)
	a.Patch(deployment, "web", `{"metadata":{"annotations":{"resources.gardener.cloud/skip-health-check":"true"}}}`)
	a.judge("mr")
	a.Expect(a.verdict("mr")).To(Equal([2]string{allHealthy, allRolledOut}))
}

// A set that does not exist costs no request, and a set that cannot be read is retried.
func TestASetThatIsGone(t *testing.T) {
	a := newAlone(t)
	a.Expect(a.judge("nothing")).To(Equal(ctrl.Result{}))
	ended, cancel := context.WithCancel(a.Ctx)
	cancel()
	_, err := a.reconciler.Reconcile(ended, ctrl.Request{NamespacedName: types.NamespacedName{Namespace: a.Namespace, Name: "nothing"}})
	a.Expect(err).To(MatchError(ContainSubstring("read ManagedResource: ")))
}

// If the watch of Pods does not list them in time, the controller lists the Pods of the Deployment itself: missing data does not prove that
// there are none.
func TestPodsThatAreNotCountedInTimeAreListed(t *testing.T) {
	a := newAlone(t)
	unreachable, err := metadata.NewForConfig(&rest.Config{Host: "http://127.0.0.1:1"})
	a.Expect(err).NotTo(HaveOccurred())
	reachable, err := local.ForTests()
	a.Expect(err).NotTo(HaveOccurred())
	deployments, err := metadata.NewForConfig(reachable.Target.Config)
	a.Expect(err).NotTo(HaveOccurred())
	a.reconciler.Pods = observe.NewPods(a.Ctx, observe.PodOptions{
		Client: unreachable, OnChange: func(string, string) {},
		Clock: clock.RealClock{}, Log: logr.Discard(),
	})
	a.reconciler.Watcher = observe.New(a.Ctx, observe.Options{
		Client: deployments, Label: "resources.gardener.cloud/managed-by", Value: "gardener", Whole: a.reconciler.Whole, Pods: a.reconciler.Pods,
		OnChange: func(schema.GroupKind, string, string) {}, Clock: clock.RealClock{}, Log: logr.Discard(),
	})
	a.Create(deploymentManifest(a.Env, "web", 0, "example.com/one", "labels: {resources.gardener.cloud/managed-by: gardener}"))
	complete(a.Env, "web", 1, 0)
	a.Create(podManifest(a.Env, "old", "labels: {app: web}"))
	a.set("mr", a.ref("apps/v1", "Deployment", a.Namespace, "web"))
	a.watch()
	a.Expect(a.judge("mr")).To(Equal(ctrl.Result{RequeueAfter: time.Second}))
	a.clock.Step(6 * time.Second)
	a.judge("mr")
	a.Expect(a.verdict("mr")[1]).To(HaveSuffix("there are still non-terminated old pods"))
}

func TestASetIsNotFoundWellWhileAnObjectIsMadeAgain(t *testing.T) {
	a := newAlone(t)
	ref := a.ref("v1", "ServiceAccount", a.Namespace, "default")
	a.set("mr", ref)
	a.judge("mr")
	a.clock.Step(time.Second)
	a.ledger.open = 1
	a.Expect(a.judge("mr")).To(Equal(ctrl.Result{RequeueAfter: 20 * time.Millisecond}))
	a.Expect(a.verdict("mr")[0]).To(Equal(allHealthy))
	a.ledger.recreated = []resourcesv1alpha1.ObjectReference{ref}
	a.judge("mr")
	a.Expect(a.verdict("mr")[0]).To(Equal(`False/ServiceAccountMissing: Required ServiceAccount "default" in namespace "` + a.Namespace +
		`" is missing`))
	a.Expect(a.judge("mr")).To(Equal(ctrl.Result{RequeueAfter: time.Second}))
	a.Expect(a.verdict("mr")[0]).To(HavePrefix("False/"))
	a.clock.Step(time.Second)
	a.judge("mr")
	a.Expect(a.verdict("mr")[0]).To(Equal(allHealthy))
}

// The first change of the conditions is written at once, and the latest state again after a second.
func TestQuickChangesAreWrittenOnceASecond(t *testing.T) {
	a := newAlone(t)
	a.Create(deploymentManifest(a.Env, "web", 0, "example.com/one"))
	complete(a.Env, "web", 1, 0)
	a.set("mr", a.ref("apps/v1", "Deployment", a.Namespace, "web"))
	a.judge("mr")
	a.Expect(a.verdict("mr")).To(Equal([2]string{allHealthy, allRolledOut}))
	a.clock.Step(300 * time.Millisecond)
	for range 3 {
		a.PatchStatus(deployment, "web", `{"status":{"observedGeneration":0}}`)
		a.Expect(a.judge("mr")).To(Equal(ctrl.Result{RequeueAfter: 700 * time.Millisecond}))
	}
	a.Expect(a.verdict("mr")).To(Equal([2]string{allHealthy, allRolledOut}))
	a.clock.Step(700 * time.Millisecond)
	a.Expect(a.judge("mr")).To(Equal(ctrl.Result{RequeueAfter: time.Minute}))
	a.Expect(a.verdict("mr")[0]).To(HavePrefix("False/DeploymentUnhealthy"), "the last state is written")
	a.clock.Step(time.Hour)
	complete(a.Env, "web", 1, 0)
	a.Expect(a.judge("mr")).To(Equal(ctrl.Result{RequeueAfter: time.Minute}))
	a.Expect(a.verdict("mr")[0]).To(Equal(allHealthy), "the first change after a while is written at once")
}
