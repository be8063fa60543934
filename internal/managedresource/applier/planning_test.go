package applier_test

import (
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	. "github.com/onsi/gomega"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/controller-runtime/pkg/client"

	corev1beta1 "github.com/espalier-dev/espalier/api/core/v1beta1"
	resourcesv1alpha1 "github.com/espalier-dev/espalier/api/resources/v1alpha1"
	"github.com/espalier-dev/espalier/internal/config"
	. "github.com/espalier-dev/espalier/internal/managedresource/managedresourcetest"
	"github.com/espalier-dev/espalier/test/local"
)

// published is the machine-readable form of a plan.
type published struct {
	Version         string
	ManagedResource struct {
		Namespace, Name string
		Generation      int64
	}
	SecretsDataChecksum, Summary, Problem string
	Counts                                map[string]int
	Objects                               []plannedObject
	ObjectsNotIncluded                    int
	ValuesHidden                          bool
}

type plannedObject struct {
	Action, Kind, Namespace, Name, Note string
	Fields                              []struct{ Path, Old, New, Masked string }
	Unconfirmed                         bool
}

// actions lists the planned actions as "action Kind name".
func (p *published) actions() []string {
	var found []string
	for _, each := range p.Objects {
		found = append(found, fmt.Sprintf("%s %s %s", each.Action, each.Kind, each.Name))
	}
	slices.Sort(found)
	return found
}

// of returns the plan of an object.
func (p *published) of(name string) plannedObject {
	for _, each := range p.Objects {
		if each.Name == name {
			return each
		}
	}
	return plannedObject{}
}

func planned(mr *resourcesv1alpha1.ManagedResource) { planAs("true")(mr) }

func planAs(value string) func(*resourcesv1alpha1.ManagedResource) {
	return func(mr *resourcesv1alpha1.ManagedResource) {
		if mr.Annotations == nil {
			mr.Annotations = map[string]string{}
		}
		mr.Annotations["espalier.dev/plan"] = value
	}
}

func applyNow(mr *resourcesv1alpha1.ManagedResource) { delete(mr.Annotations, "espalier.dev/plan") }

// plannedSet creates a set with the annotation that requests a plan.
func plannedSet(e *Env, name string, documents ...string) {
	e.T.Helper()
	e.Secret(name, documents...)
	mr := e.ManagedResource(name, name)
	planned(mr)
	e.Expect(e.Source.Create(e.Ctx, mr)).To(Succeed())
}

func readPlan(e *Env, name string) *corev1.ConfigMap {
	e.T.Helper()
	found := &corev1.ConfigMap{}
	if err := e.Source.Get(e.Ctx, client.ObjectKey{Namespace: e.Namespace, Name: name + "-plan"}, found); err != nil {
		e.Expect(apierrors.IsNotFound(err)).To(BeTrue(), "%v", err)
		return nil
	}
	return found
}

// planPatience is how long tests wait for a plan: a plan of many objects is slow, and the pause after it is a multiple of its time.
const planPatience = 3 * time.Minute

// awaitPlan waits until a plan is published that passes a check.
func awaitPlan(e *Env, name string, check func(g Gomega, p *published)) *corev1.ConfigMap {
	e.T.Helper()
	var found *corev1.ConfigMap
	e.Eventually(func(g Gomega) {
		found = readPlan(e, name)
		g.Expect(found).NotTo(BeNil())
		p := &published{}
		g.Expect(json.Unmarshal([]byte(found.Data["plan.json"]), p)).To(Succeed())
		check(g, p)
	}).WithTimeout(planPatience).Should(Succeed())
	return found
}

func showsActions(want ...string) func(Gomega, *published) {
	return func(g Gomega, p *published) { g.Expect(p.actions()).To(Equal(want), "%s", p.Problem) }
}

// written records the write requests to the target, and counts the dry runs.
type written struct {
	mu     sync.Mutex
	writes []string
	trials int
}

func watchTarget(e *Env) *written {
	servers, err := local.ForTests()
	e.Expect(err).NotTo(HaveOccurred())
	w := &written{}
	e.Requests.SetHook(func(request *http.Request) error {
		if request.Method == http.MethodGet || !strings.Contains(servers.Target.Config.Host, request.URL.Host) ||
			strings.Contains(request.URL.Path, "selfsubjectaccessreviews") {
			return nil
		}
		w.mu.Lock()
		defer w.mu.Unlock()
		if request.URL.Query().Get("dryRun") == "All" && request.Method != http.MethodDelete {
			w.trials++
			return nil
		}
		w.writes = append(w.writes, request.Method+" "+request.URL.Path)
		return nil
	})
	return w
}

func (w *written) seen() (writes []string, trials int) {
	w.mu.Lock()
	defer w.mu.Unlock()
	return slices.Clone(w.writes), w.trials
}

func eventsOf(e *Env, name, reason string) []string {
	var found []string
	for _, each := range e.Events(name) {
		if note, ok := strings.CutPrefix(each, reason+": "); ok {
			found = append(found, note)
		}
	}
	return found
}

func TestANewSetWithThePlanAnnotationIsNotApplied(t *testing.T) {
	t.Parallel()
	e := New(t, Options{TwoClusters: true, Stopped: true})
	seen := watchTarget(e)
	plannedSet(e, "mr", manifests(e)...)
	e.Start()
	found := awaitPlan(e, "mr", showsActions(
		"create ConfigMap one", "create ConfigMap two", "create Deployment web", "create PodDisruptionBudget web", "create Role web",
		"create Secret web", "create Service web", "create ServiceAccount web",
	))
	e.Expect(found.Data["summary"]).To(Equal("8 to create"))
	e.Expect(found.Labels).To(HaveKeyWithValue("espalier.dev/plan-of", "mr"))
	mr := e.Get("mr")
	e.Expect(found.OwnerReferences).To(HaveLen(1))
	e.Expect(found.OwnerReferences[0].UID).To(Equal(mr.UID))
	e.Expect(mr.Finalizers).To(BeEmpty())
	e.Expect(mr.Status).To(BeComparableTo(resourcesv1alpha1.ManagedResourceStatus{}))
	e.Eventually(func() []string { return eventsOf(e, "mr", "Planned") }).WithTimeout(Patience).
		Should(ConsistOf(`8 to create (see plan.txt in ConfigMap "mr-plan")`))

	e.Restart(nil)
	e.Requests.Reset()
	e.Fence()
	e.Eventually(func() int {
		return len(slices.DeleteFunc(e.Requests.Seen(), func(s string) bool { return !strings.HasSuffix(s, "/configmaps/mr-plan") }))
	}).
		WithTimeout(Patience).Should(BeNumerically(">=", 1))
	e.Expect(readPlan(e, "mr").ResourceVersion).To(Equal(found.ResourceVersion), "a plan that stays the same is not written again")
	e.Expect(eventsOf(e, "mr", "Planned")).To(HaveLen(1))
	e.Delete("mr")
	e.AwaitGone("mr")
	e.Eventually(func() *corev1.ConfigMap { return readPlan(e, "mr") }).WithTimeout(Patience).Should(BeNil())

	writes, trials := seen.seen()
	e.Expect(slices.DeleteFunc(writes, func(each string) bool {
		return strings.Contains(each, "/configmaps") && strings.Contains(each, "fence-") || strings.HasSuffix(each, "/configmaps")
	})).To(BeEmpty())
	e.Expect(trials).To(BeNumerically(">=", 8))
	for _, kind := range []string{"v1/Service", "v1/ServiceAccount", "v1/Secret", "apps/v1/Deployment"} {
		e.Expect(e.Live(kind, "web")).To(BeNil())
	}
	e.Expect(e.LiveConfigMap("one")).To(BeNil())
}

// secretValue and similar values must not appear outside of Secrets.
const secretValue = "Tr0ub4dor-and-3"

func secretManifest(e *Env, value string) string {
	return fmt.Sprintf("apiVersion: v1\nkind: Secret\nmetadata: {name: login, namespace: %s}\nstringData: {password: %s}", e.Namespace, value)
}

func service(e *Env, name, metadata string) string {
	return fmt.Sprintf("apiVersion: v1\nkind: Service\nmetadata: {name: %s, namespace: %s%s}\n"+
		"spec: {selector: {app: web}, ports: [{port: 80}]}", name, e.Namespace, metadata)
}

func TestEveryActionInOnePlan(t *testing.T) {
	t.Parallel()
	e := New(t, Options{TwoClusters: true, Configure: func(c *config.ResourceManagerConfiguration) {
		c.Espalier.ManagedResource.Namespaces = &config.EspalierNamespaces{Objects: nil, ClusterScoped: ptr.To(true)}
	}})
	e.Set("mr",
		e.ConfigMap("changed", "1"), e.ConfigMap("same", "1"), e.ConfigMap("deleted", "1"), e.ConfigMap("released", "1"), e.ConfigMap("finalized",
			"1"),
		e.ConfigMap("kept", "1", "annotations: {resources.gardener.cloud/keep-object: 'true'}"),
		e.ConfigMap("replaced", "1")+"immutable: true\n", secretManifest(e, secretValue), e.ConfigMap("vanished", "1"), e.ConfigMap("tampered",
			"1"),
		service(e, "invalid", ""),
	)
	e.AwaitApplied("mr", succeeded)
	e.Set("other", e.ConfigMap("taken", "1"))
	e.AwaitApplied("other", succeeded)
	e.Create(e.ConfigMap("found", "0", "annotations: {kubectl.kubernetes.io/last-applied-configuration: "+secretValue+"}"))
	e.Edit("finalized", `{"metadata":{"finalizers":["example.com/hold"]}}`)
	e.T.Cleanup(func() {
		patch := client.RawPatch("application/merge-patch+json", []byte(`{"metadata":{"finalizers":null}}`))
		_ = e.Target.Patch(t.Context(), &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Namespace: e.Namespace, Name: "finalized"}}, patch)
	})
	before := changed(e, "mr", planned)
	awaitPlan(e, "mr", func(g Gomega, p *published) {
		g.Expect(p.Summary).To(Equal("nothing would change: 11 unchanged"))
		g.Expect(p.SecretsDataChecksum).To(Equal(*before.Status.SecretsDataChecksum))
		g.Expect(p.ManagedResource.Generation).To(Equal(before.Generation))
	})

	seen := watchTarget(e)
	// Drift is shown, and not repaired.
	e.Edit("tampered", `{"data":{"key":"2"}}`)
	e.Remove("v1/ConfigMap", "vanished")
	awaitPlan(e, "mr", func(g Gomega, p *published) {
		g.Expect(p.Counts).To(Equal(map[string]int{"unchanged": 9, "create": 1, "change": 1}))
		g.Expect(p.of("tampered").Note).To(Equal(`changed by another client since it was applied, last by "kubectl-edit"`))
	})

	e.Secret("mr",
		e.ConfigMap("changed", "2"), e.ConfigMap("same", "1"), e.ConfigMap("released", "1",
			"annotations: {resources.gardener.cloud/mode: Ignore}"),
		e.ConfigMap("replaced", "2")+"immutable: true\n", secretManifest(e, secretValue+"4711"), e.ConfigMap("vanished",
			"1"), e.ConfigMap("tampered", "1"),
		strings.Replace(service(e, "invalid", ""), "port: 80", "port: 99999", 1),
		e.ConfigMap("new", "1"), e.ConfigMap("found", "1"), e.ConfigMap("taken", "2"),
		"apiVersion: no.such/v1\nkind: Thing\nmetadata: {name: unserved}",
		fmt.Sprintf("apiVersion: v1\nkind: Namespace\nmetadata: {name: %s-more}", e.Namespace),
		strings.Replace(e.ConfigMap("inside", "1"), "namespace: "+e.Namespace, "namespace: "+e.Namespace+"-more", 1),
		strings.Replace(e.ConfigMap("nowhere", "1"), "namespace: "+e.Namespace, "namespace: "+e.Namespace+"-less", 1),
		"apiVersion: apiextensions.k8s.io/v1\nkind: CustomResourceDefinition\nmetadata: {name: pears.plan.example.com}\n"+
			"spec: {group: plan.example.com, names: {kind: Pear, listKind: PearList, plural: pears, singular: pear}, scope: Namespaced, "+
			"versions: [{name: v1, served: true, storage: true, schema: {openAPIV3Schema: {type: object}}}]}",
		fmt.Sprintf("apiVersion: plan.example.com/v1\nkind: Pear\nmetadata: {name: pear, namespace: %s}", e.Namespace),
	)
	found := awaitPlan(e, "mr", showsActions(
		"adopt ConfigMap found", "adopt ConfigMap taken", "change ConfigMap changed", "change ConfigMap tampered", "change Secret login",
		"create ConfigMap inside", "create ConfigMap new", "create ConfigMap vanished", "create CustomResourceDefinition pears.plan.example.com",
		"create Namespace "+e.Namespace+"-more", "create Pear pear", "delete ConfigMap deleted", "delete ConfigMap finalized",
		"keep ConfigMap kept",
		"refused ConfigMap nowhere", "refused Service invalid", "refused Thing unserved", "release ConfigMap released", "replace ConfigMap "+
			"replaced", "unchanged ConfigMap same",
	))
	p := &published{}
	e.Expect(json.Unmarshal([]byte(found.Data["plan.json"]), p)).To(Succeed())
	for name, note := range map[string]string{
		"finalized": "it is gone only when its finalizers are removed: example.com/hold",
		"taken":     fmt.Sprintf("it would be taken from ManagedResource %q, which holds it too", e.Namespace+"/other"),
		"found":     "it exists and belongs to no set",
		"inside":    "not confirmed: its namespace is created by the set itself",
		"pear":      `not confirmed: its kind is not served yet; CustomResourceDefinition "pears.plan.example.com" of the set defines it`,
		"kept":      "it has the annotation resources.gardener.cloud/keep-object",
		"nowhere":   fmt.Sprintf("namespaces %q not found", e.Namespace+"-less"),
	} {
		e.Expect(p.of(name).Note).To(Equal(note), name)
	}
	e.Expect(p.ValuesHidden).To(BeTrue())
	e.Expect(p.of("invalid").Note).To(And(
		HavePrefix("the API server answers Invalid spec.ports[0].port (FieldValueInvalid)"), Not(ContainSubstring("99999"))))
	e.Expect(p.of("changed").Fields).To(Equal([]struct{ Path, Old, New, Masked string }{{Path: "data.key", Masked: "changed"}}))
	e.Expect(found.Data["plan.txt"]).To(And(ContainSubstring("\n  ~ data.key: changed\n"), Not(MatchRegexp(`(?m)^  [-+] `))))

	t.Log("the owner of the set asks for values")
	changed(e, "mr", func(mr *resourcesv1alpha1.ManagedResource) { mr.Annotations["espalier.dev/plan-values"] = "true" })
	found = awaitPlan(e, "mr", func(g Gomega, p *published) { g.Expect(p.ValuesHidden).To(BeFalse()) })
	p = &published{}
	e.Expect(json.Unmarshal([]byte(found.Data["plan.json"]), p)).To(Succeed())
	e.Expect(p.of("invalid").Note).To(ContainSubstring("spec.ports[0].port: Invalid value: 99999"))
	e.Expect(p.of("replaced").Note).To(ContainSubstring("field is immutable when `immutable` is set"))
	e.Expect(p.of("unserved").Note).To(ContainSubstring("no matches for kind"))
	e.Expect(p.of("login").Fields).To(Equal([]struct {
		Path, Old, New,
		Masked string
	}{{Path: "data.password", Masked: fmt.Sprintf("changed (%d bytes → %d bytes)", len(secretValue), len(secretValue)+4)}}))
	e.Expect(p.of("changed").Fields).To(Equal([]struct{ Path, Old, New, Masked string }{{Path: "data.key", Old: `"1"`, New: `"2"`}}))

	writes, trials := seen.seen()
	e.Expect(writes).To(BeEmpty())
	e.Expect(trials).To(BeNumerically(">", 0))
	e.Expect(ofApply(e.Get("mr"))).To(BeComparableTo(ofApply(before)))
	everywhere := fmt.Sprint(found, e.Events("mr"))
	e.Expect(everywhere).NotTo(ContainSubstring(secretValue))
	e.Expect(everywhere).NotTo(ContainSubstring("VHIwdWI0ZG9yLWFuZC0z")) // the same in base64
	e.Expect(eventsOf(e, "mr", "Planned")).NotTo(BeEmpty())
}

func TestWhatIsAppliedIsWhatWasPlanned(t *testing.T) {
	t.Parallel()
	e := New(t, Options{})
	documents := append(manifests(e), e.ConfigMap("gone", "1"))
	e.Set("mr", documents...)
	e.AwaitApplied("mr", succeeded)
	awaitRollout(e, false) // before that, its controller writes to the Deployment
	changed(e, "mr", planned)
	awaitPlan(e, "mr", func(g Gomega, p *published) { g.Expect(p.Counts).To(Equal(map[string]int{"unchanged": 9})) })
	e.Secret("mr", append(manifests(e)[1:], e.ConfigMap("one", "changed"), e.ConfigMap("three", "3"))...)
	awaitPlan(e, "mr", func(g Gomega, p *published) {
		g.Expect(p.Counts).To(Equal(map[string]int{"unchanged": 7, "change": 1, "create": 1, "delete": 1}))
	})
	e.Expect(e.LiveConfigMap("gone")).NotTo(BeNil())
	versions := map[string]string{}
	for _, kind := range []string{"v1/Service", "v1/ServiceAccount", "v1/Secret", "apps/v1/Deployment"} {
		versions[kind] = e.Live(kind, "web").GetResourceVersion()
	}

	mr := changed(e, "mr", applyNow)
	e.AwaitData("one", "changed")
	e.AwaitData("three", "3")
	e.AwaitAbsent("v1/ConfigMap", "gone")
	e.Eventually(func() *corev1.ConfigMap { return readPlan(e, "mr") }).WithTimeout(Patience).Should(BeNil())
	e.AwaitApplied("mr", succeeded)
	e.Expect(e.Get("mr").Status.SecretsDataChecksum).NotTo(Equal(mr.Status.SecretsDataChecksum))
	e.Expect(e.Get("mr").Annotations).NotTo(HaveKey("espalier.dev/planned"))
	for kind, version := range versions {
		e.Expect(e.Live(kind, "web").GetResourceVersion()).To(Equal(version), kind)
	}
	changed(e, "mr", planned)
	awaitPlan(e, "mr", func(g Gomega, p *published) { g.Expect(p.Summary).To(Equal("nothing would change: 9 unchanged")) })
}

// Changes of the annotation while no process runs have the same effect as changes while a process runs.
func TestThePlanAnnotationIsFollowedAfterARestart(t *testing.T) {
	t.Parallel()
	e := New(t, Options{})
	e.Set("mr", e.ConfigMap("one", "1"))
	before := e.AwaitApplied("mr", succeeded)
	e.Restart(func() {
		e.Change("mr", planned)
		e.Secret("mr", e.ConfigMap("one", "2"))
	})
	found := awaitPlan(e, "mr", showsActions("change ConfigMap one"))
	e.Restart(nil)
	e.Fence()
	e.Expect(e.LiveConfigMap("one").Data).To(HaveKeyWithValue("key", "1"))
	e.Expect(ofApply(e.Get("mr"))).To(BeComparableTo(ofApply(before)))
	e.Expect(readPlan(e, "mr").ResourceVersion).To(Equal(found.ResourceVersion))
	e.Restart(func() { e.Change("mr", applyNow) })
	e.AwaitData("one", "2")
	e.Eventually(func() *corev1.ConfigMap { return readPlan(e, "mr") }).WithTimeout(Patience).Should(BeNil())
	e.Eventually(func() map[string]string { return e.Get("mr").Annotations }).WithTimeout(Patience).
		ShouldNot(HaveKey("espalier.dev/planned"))
}

// The controller of the first class removes its plan, whether the set has the finalizer of this controller or not.
func TestThePlanOfASetThatMovesToAnotherClassIsRemoved(t *testing.T) {
	t.Parallel()
	for name, applied := range map[string]bool{"after it was applied": true, "before it was ever applied": false} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			e := New(t, Options{})
			if applied {
				e.Set("mr", e.ConfigMap("one", "1"))
				e.AwaitApplied("mr", succeeded)
				changed(e, "mr", planned)
				awaitPlan(e, "mr", showsActions("unchanged ConfigMap one"))
			} else {
				plannedSet(e, "mr", e.ConfigMap("one", "1"))
				awaitPlan(e, "mr", showsActions("create ConfigMap one"))
			}
			changed(e, "mr", func(mr *resourcesv1alpha1.ManagedResource) {
				applyNow(mr)
				mr.Spec.Class = ptr.To("other")
			})
			e.Eventually(func() *corev1.ConfigMap { return readPlan(e, "mr") }).WithTimeout(Patience).Should(BeNil())
			e.Eventually(func() map[string]string { return e.Get("mr").Annotations }).WithTimeout(Patience).
				ShouldNot(HaveKey("espalier.dev/planned"))
			e.Eventually(func() []string { return e.Get("mr").Finalizers }).WithTimeout(Patience).Should(BeEmpty())
		})
	}
}

// The controllers of both classes publish plans under the same name.
func TestThePlanOfTheOtherInstanceIsKept(t *testing.T) {
	t.Parallel()
	e := New(t, Options{})
	plannedSet(e, "mr", e.ConfigMap("one", "1"))
	awaitPlan(e, "mr", showsActions("create ConfigMap one"))
	e.StartAnother(func(c *config.ResourceManagerConfiguration) { c.Controllers.ResourceClass = ptr.To("other") })
	mr := changed(e, "mr", func(mr *resourcesv1alpha1.ManagedResource) { mr.Spec.Class = ptr.To("other") })
	awaitPlan(e, "mr", func(g Gomega, p *published) { g.Expect(p.ManagedResource.Generation).To(Equal(mr.Generation)) })
	e.Fence()
	awaitPlan(e, "mr", func(g Gomega, p *published) { g.Expect(p.ManagedResource.Generation).To(Equal(mr.Generation)) })
	e.Eventually(func() map[string]string { return e.Get("mr").Annotations }).WithTimeout(Patience).
		Should(HaveKeyWithValue("espalier.dev/planned", "mr-plan"))
}

// Each attempt sends dry-run requests for the whole set.
func TestThePauseGrowsWhileAPlanCannotBePublished(t *testing.T) {
	t.Parallel()
	e := New(t, Options{Stopped: true, Configure: func(c *config.ResourceManagerConfiguration) {
		c.Controllers.ManagedResource.SyncPeriod = &metav1.Duration{Duration: time.Minute}
	}})
	attempts := make(chan time.Time, 100)
	e.Requests.SetHook(func(request *http.Request) error {
		if request.Method == http.MethodPost && strings.HasSuffix(request.URL.Path, "/configmaps") && request.URL.Query().Get("dryRun") == "" {
			attempts <- time.Now()
			return apierrors.NewForbidden(schema.GroupResource{Resource: "configmaps"}, "mr-plan", errors.New("synthetic"))
		}
		return nil
	})
	plannedSet(e, "mr", e.ConfigMap("one", "1"))
	e.Start()
	var times []time.Time
	for range 3 {
		var at time.Time
		e.Eventually(attempts).WithTimeout(Patience).Should(Receive(&at))
		times = append(times, at)
	}
	e.Expect(times[2].Sub(times[0])).To(BeNumerically(">=", 3*time.Second)) // a slow machine only makes it longer
	e.Eventually(func() []string { return eventsOf(e, "mr", "PlanNotPublished") }).WithTimeout(Patience).Should(HaveLen(1))
	e.Requests.SetHook(nil)
	awaitPlan(e, "mr", showsActions("create ConfigMap one"))
}

func TestAPlanReportsAnUnreadableSecret(t *testing.T) {
	t.Parallel()
	e := New(t, Options{Stopped: true})
	var answer atomic.Pointer[error]
	respond := func(err error) { answer.Store(&err) }
	e.Requests.SetHook(func(request *http.Request) error {
		if request.Method == http.MethodGet && strings.HasSuffix(request.URL.Path, "/secrets/mr") {
			return *answer.Load()
		}
		return nil
	})
	respond(errors.New("synthetic outage"))
	plannedSet(e, "mr", e.ConfigMap("one", "1"))
	e.Start()
	e.Eventually(func() []string { return eventsOf(e, "mr", "CannotReadSecret") }).WithTimeout(Patience).
		Should(ConsistOf(And(HavePrefix(fmt.Sprintf("could not read secret '%s/mr': ", e.Namespace)), HaveSuffix("synthetic outage"))))
	e.Expect(readPlan(e, "mr")).To(BeNil())

	respond(apierrors.NewForbidden(schema.GroupResource{Resource: "secrets"}, "mr", errors.New("synthetic")))
	awaitPlan(e, "mr", func(g Gomega, p *published) {
		g.Expect(p.Problem).To(And(HavePrefix(fmt.Sprintf("could not read secret '%s/mr': ", e.Namespace)),
			HaveSuffix("is forbidden: synthetic")))
	})
	respond(nil)
	awaitPlan(e, "mr", showsActions("create ConfigMap one"))
}

func TestAForeignConfigMapIsNotTouched(t *testing.T) {
	t.Parallel()
	e := New(t, Options{})
	foreign := &corev1.ConfigMap{
		ObjectMeta: metav1.ObjectMeta{Namespace: e.Namespace, Name: "mr-plan"},
		Data:       map[string]string{"mine": "yes"},
	}
	e.Expect(e.Source.Create(e.Ctx, foreign)).To(Succeed())
	plannedSet(e, "mr", e.ConfigMap("one", "1"))
	e.Eventually(func() []string { return eventsOf(e, "mr", "PlanNotPublished") }).WithTimeout(Patience).
		Should(ConsistOf(`ConfigMap "mr-plan" exists and does not hold a plan of this set; remove or rename it`))
	changed(e, "mr", applyNow)
	e.AwaitApplied("mr", succeeded)
	now := readPlan(e, "mr")
	e.Expect(now).NotTo(BeNil())
	e.Expect(now.ResourceVersion).To(Equal(foreign.ResourceVersion))
	e.Expect(eventsOf(e, "mr", "Planned")).To(BeEmpty())
}

func TestAnInvalidValueOfTheAnnotationRequestsAPlan(t *testing.T) {
	t.Parallel()
	e := New(t, Options{})
	e.Secret("mr", e.ConfigMap("one", "1"))
	mr := e.ManagedResource("mr", "mr")
	planAs("of course")(mr)
	e.Expect(e.Source.Create(e.Ctx, mr)).To(Succeed())
	awaitPlan(e, "mr", showsActions("create ConfigMap one"))
	e.Eventually(func() []string { return eventsOf(e, "mr", "PlanAnnotationMalformed") }).WithTimeout(Patience).
		Should(ConsistOf(`Annotation espalier.dev/plan has value "of course", which is neither true nor false; the set is planned and not ` +
			`applied`))
	e.Expect(e.LiveConfigMap("one")).To(BeNil())
	changed(e, "mr", planAs("false"))
	e.AwaitApplied("mr", succeeded)
}

func TestAPlannedSetIsDeletedLikeAnyOther(t *testing.T) {
	t.Parallel()
	e := New(t, Options{})
	e.Set("mr", e.ConfigMap("one", "1"))
	e.AwaitApplied("mr", succeeded)
	changed(e, "mr", planned)
	awaitPlan(e, "mr", showsActions("unchanged ConfigMap one"))
	e.Delete("mr")
	e.AwaitGone("mr")
	e.Expect(e.LiveConfigMap("one")).To(BeNil())
	e.Eventually(func() *corev1.ConfigMap { return readPlan(e, "mr") }).WithTimeout(Patience).Should(BeNil())
}

func TestAHandOverIsPlannedAndNotExecuted(t *testing.T) {
	t.Parallel()
	e := New(t, Options{})
	e.Set("mr", e.ConfigMap("one", "1"))
	before := e.AwaitApplied("mr", succeeded)
	changed(e, "mr", func(mr *resourcesv1alpha1.ManagedResource) {
		planned(mr)
		mr.Spec.Class = ptr.To("other")
	})
	awaitPlan(e, "mr", showsActions("delete ConfigMap one"))
	changed(e, "mr", func(mr *resourcesv1alpha1.ManagedResource) { mr.Spec.KeepObjects = new(true) })
	awaitPlan(e, "mr", showsActions("keep ConfigMap one"))
	e.Expect(e.LiveConfigMap("one")).NotTo(BeNil())
	e.Expect(e.Get("mr").Finalizers).To(Equal(before.Finalizers))
	e.Expect(ofApply(e.Get("mr"))).To(BeComparableTo(ofApply(before)))
}

func TestTheIgnoreAnnotationOverridesThePlanAnnotation(t *testing.T) {
	t.Parallel()
	e := New(t, Options{})
	plannedSet(e, "mr", e.ConfigMap("one", "1"))
	awaitPlan(e, "mr", showsActions("create ConfigMap one"))
	changed(e, "mr", func(mr *resourcesv1alpha1.ManagedResource) {
		mr.Annotations["resources.gardener.cloud/ignore"] = "true"
	})
	e.AwaitApplied("mr", "True/ManagedResourceIgnored")
	e.Eventually(func() *corev1.ConfigMap { return readPlan(e, "mr") }).WithTimeout(Patience).Should(BeNil())
	e.Expect(e.LiveConfigMap("one")).To(BeNil())
	changed(e, "mr", func(mr *resourcesv1alpha1.ManagedResource) { delete(mr.Annotations, "resources.gardener.cloud/ignore") })
	awaitPlan(e, "mr", showsActions("create ConfigMap one"))
}

func TestAFaultThatPreventsThePlanIsReported(t *testing.T) {
	t.Parallel()
	e := New(t, Options{})
	mr := e.ManagedResource("mr", "mr")
	planned(mr)
	e.Expect(e.Source.Create(e.Ctx, mr)).To(Succeed())
	awaitPlan(e, "mr", func(g Gomega, p *published) {
		g.Expect(p.Problem).To(Equal(fmt.Sprintf("could not read secret '%s/mr': secrets \"mr\" not found", e.Namespace)))
	})
	e.Secret("mr", e.ConfigMap("one", "1"), "foo: [1, 2")
	awaitPlan(e, "mr", showsActions("create ConfigMap one"))
	e.Expect(readPlan(e, "mr").Data["plan.txt"]).
		To(ContainSubstring(fmt.Sprintf("! Could not decode resource at index 1 in 'objects.yaml' in secret '%s/mr'", e.Namespace)))
}

func TestABigPlanFitsIntoAConfigMap(t *testing.T) {
	t.Parallel()
	e := New(t, Options{})
	const count = 1200
	for half := range 2 {
		var documents []string
		for i := range count / 2 {
			documents = append(documents, e.ConfigMap(fmt.Sprintf("%s-%d-%04d", strings.Repeat("n", 200), half, i), "1"))
		}
		e.Secret(fmt.Sprintf("mr-%d", half), documents...)
	}
	mr := e.ManagedResource("mr", "mr-0", "mr-1")
	planned(mr)
	e.Expect(e.Source.Create(e.Ctx, mr)).To(Succeed())
	found := awaitPlan(e, "mr", func(g Gomega, p *published) {
		g.Expect(p.Counts).To(Equal(map[string]int{"create": count}))
		g.Expect(p.ObjectsNotIncluded).To(Equal(count - len(p.Objects)))
		g.Expect(p.ObjectsNotIncluded).To(BeNumerically(">", 0))
	})
	size := 0
	for _, value := range found.Data {
		size += len(value)
	}
	e.Expect(size).To(And(BeNumerically("<", 512<<10), BeNumerically(">", 300<<10)))
	e.Expect(found.Data["plan.txt"]).To(MatchRegexp(`\nand \d+ more objects that are not shown\n$`))
}

func TestThePlanReportsMissingRights(t *testing.T) {
	t.Parallel()
	e := New(t, Options{})
	plannedSet(e, "mr", e.ConfigMap("one", "1"),
		fmt.Sprintf("apiVersion: v1\nkind: Event\nmetadata: {name: e, namespace: %s}\ninvolvedObject: {namespace: %s}", e.Namespace, e.Namespace),
		fmt.Sprintf("apiVersion: coordination.k8s.io/v1\nkind: Lease\nmetadata: {name: lease, namespace: %s}", e.Namespace))
	e.Expect(e.Source.Create(e.Ctx, &unstructured.Unstructured{Object: map[string]any{
		"apiVersion": "rbac.authorization.k8s.io/v1", "kind": "Role", "metadata": map[string]any{"name": "read-leases", "namespace": e.Namespace},
		"rules": []any{map[string]any{
			"apiGroups": []any{"coordination.k8s.io"}, "resources": []any{"leases"},
			"verbs": []any{"get", "list", "watch"},
		}},
	}})).To(Succeed())
	e.Expect(e.Source.Create(e.Ctx, &unstructured.Unstructured{Object: map[string]any{
		"apiVersion": "rbac.authorization.k8s.io/v1", "kind": "RoleBinding", "metadata": map[string]any{
			"name":      "read-leases",
			"namespace": e.Namespace,
		},
		"roleRef":  map[string]any{"apiGroup": "rbac.authorization.k8s.io", "kind": "Role", "name": "read-leases"},
		"subjects": []any{map[string]any{"kind": "ServiceAccount", "namespace": e.Namespace, "name": "managedresource-controller"}},
	}})).To(Succeed())
	awaitPlan(e, "mr", func(g Gomega, p *published) {
		g.Expect(p.actions()).To(Equal([]string{"create ConfigMap one", "refused Lease lease", "unknown Event e"}))
		g.Expect(p.of("lease").Note).To(ContainSubstring("cannot create resource \"leases\""))
		g.Expect(p.of("e").Note).To(ContainSubstring("cannot tell: events \"e\" is forbidden"))
	})
}

func TestThePlanDoesNotReadAnObjectThatWasNeverWritten(t *testing.T) {
	t.Parallel()
	e := New(t, Options{})
	forbidden := fmt.Sprintf("apiVersion: coordination.k8s.io/v1\nkind: Lease\nmetadata: {name: x, namespace: %s}", e.Namespace)
	e.Set("mr", e.ConfigMap("one", "1"), forbidden)
	e.AwaitApplied("mr", "False/ApplyFailed")
	e.Change("mr", planned)
	awaitPlan(e, "mr", func(g Gomega, p *published) { g.Expect(p.of("x").Action).NotTo(BeEmpty()) })
	e.Requests.Reset()
	e.Secret("mr", e.ConfigMap("one", "1"))
	awaitPlan(e, "mr", func(g Gomega, p *published) { g.Expect(p.of("x").Note).To(Equal("it was never written")) })
	e.Expect(e.Requests.Seen()).NotTo(ContainElement(SatisfyAll(HavePrefix("GET "), HaveSuffix("/leases/x"))))
}

// ofApply returns the part of the status about the last apply. The health may change at any time.
func ofApply(mr *resourcesv1alpha1.ManagedResource) resourcesv1alpha1.ManagedResourceStatus {
	status := mr.Status.DeepCopy()
	status.Conditions = slices.DeleteFunc(status.Conditions, func(c corev1beta1.Condition) bool { return c.Type != "ResourcesApplied" })
	return *status
}

// changed updates a set and returns it.
func changed(e *Env, name string, change func(*resourcesv1alpha1.ManagedResource)) *resourcesv1alpha1.ManagedResource {
	e.T.Helper()
	e.Change(name, change)
	return e.Get(name)
}
