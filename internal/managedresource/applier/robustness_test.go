package applier_test

import (
	"errors"
	"fmt"
	"net/http"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	. "github.com/onsi/gomega"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	clocktesting "k8s.io/utils/clock/testing"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/controller/controllerutil"

	"github.com/espalier-dev/espalier/internal/config"
	. "github.com/espalier-dev/espalier/internal/managedresource/managedresourcetest"
)

const (
	succeeded = "True/ApplySucceeded"
	applied   = "ResourcesApplied"
)

// objectRequests lists the requests that read or wrote single objects of a set.
func objectRequests(e *Env) []string {
	var found []string
	for _, each := range e.Requests.Seen() {
		_, path, _ := strings.Cut(each, " ")
		for _, kind := range []string{
			"/configmaps/", "/configmaps", "/services", "/deployments", "/serviceaccounts", "/roles",
			"/poddisruptionbudgets",
		} {
			if strings.Contains(path, "/namespaces/"+e.Namespace+kind) && (kind != "/configmaps" || strings.HasSuffix(path, kind)) {
				found = append(found, each)
				break
			}
		}
	}
	return found
}

func manifests(e *Env) []string {
	return []string{
		e.ConfigMap("one", "1"), e.ConfigMap("two", "2"),
		fmt.Sprintf("apiVersion: v1\nkind: Service\nmetadata: {name: web, namespace: %s}\n"+
			"spec: {clusterIP: None, selector: {app: web}, ports: [{port: 53, protocol: UDP, name: dns}, {port: 80, name: http}]}", e.Namespace),
		fmt.Sprintf("apiVersion: v1\nkind: ServiceAccount\nmetadata: {name: web, namespace: %s}", e.Namespace),
		fmt.Sprintf("apiVersion: v1\nkind: Secret\nmetadata: {name: web, namespace: %s}\nstringData: {a: b}", e.Namespace),
		fmt.Sprintf("apiVersion: policy/v1\nkind: PodDisruptionBudget\nmetadata: {name: web, namespace: %s}\n"+
			"spec: {minAvailable: 1, selector: {matchLabels: {app: web}}}", e.Namespace),
		fmt.Sprintf("apiVersion: rbac.authorization.k8s.io/v1\nkind: Role\nmetadata: {name: web, namespace: %s}\n"+
			"rules: [{apiGroups: [''], resources: [pods], verbs: [get]}]", e.Namespace),
		fmt.Sprintf("apiVersion: apps/v1\nkind: Deployment\nmetadata: {name: web, namespace: %s}\n"+
			"spec: {replicas: 0, selector: {matchLabels: {app: web}}, template: {metadata: {labels: {app: web}}, spec: {containers: [{name: c, "+
			"image: i, resources: {limits: {cpu: 1000m}}, ports: [{containerPort: 80}]}]}}}", e.Namespace),
	}
}

// awaitRollout waits until the controllers of Kubernetes have finished their writes to the manifests' objects. The second cluster has no
// such controllers.
func awaitRollout(e *Env, two bool) {
	if !two {
		e.AwaitCondition("mr", "ResourcesProgressing", "False/ResourcesRolledOut")
		e.AwaitCondition("mr", "ResourcesHealthy", "True/ResourcesHealthy")
		e.Await("policy/v1/PodDisruptionBudget", "web", func(g Gomega, live *unstructured.Unstructured) {
			g.Expect(Field(live, "status", "observedGeneration")).To(BeEquivalentTo(1))
		})
	}
}

// A restart needs one list per kind, and no read per object.
func TestRestartOfAnUntouchedSetReadsAndWritesNoObject(t *testing.T) {
	t.Parallel()
	for name, two := range map[string]bool{"one cluster": false, "two clusters": true} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			e := New(t, Options{TwoClusters: two, Configure: longSyncPeriod}) // watches that list for longer than a period are not waited for
			e.Set("mr", manifests(e)...)
			e.AwaitApplied("mr", succeeded)
			awaitRollout(e, two)
			before := e.Get("mr")
			e.Restart(func() { e.Requests.Reset() })
			awaitReconciled(e, 8)
			e.Expect(objectRequests(e)).To(BeEmpty())
			e.Expect(writes(e)).To(BeEmpty())
			e.Expect(e.Get("mr").Status).To(BeComparableTo(before.Status))
		})
	}
}

// writes lists the write requests without the access reviews, which every start sends.
func writes(e *Env) []string {
	var found []string
	for _, each := range e.Requests.Writes() {
		if !strings.Contains(each, "selfsubjectaccessreviews") {
			found = append(found, each)
		}
	}
	return found
}

// awaitReconciled waits until the metric of the controller counts the given number of objects as applied.
func awaitReconciled(e *Env, objects float64) {
	e.T.Helper()
	e.Eventually(func() float64 { return gauge(e, "espalier_managedresource_objects", "applied") }).WithTimeout(Patience).
		WithPolling(5 * time.Millisecond).Should(Equal(objects))
}

func gauge(e *Env, name, state string) float64 {
	families, err := e.Registry.Gather()
	e.Expect(err).NotTo(HaveOccurred())
	for _, family := range families {
		for _, metric := range family.GetMetric() {
			if family.GetName() == name && len(metric.GetLabel()) > 0 && metric.GetLabel()[0].GetValue() == state {
				return metric.GetGauge().GetValue()
			}
		}
	}
	return -1
}

// While no process runs, other clients make changes. The next process finds these changes in its first list of the objects, and repairs
// them.
func TestChangesMadeWhileTheProcessIsDownAreRepaired(t *testing.T) {
	t.Parallel()
	for name, tc := range map[string]struct {
		change func(e *Env)
		reads  bool
	}{
		"an owned value changed": {change: func(e *Env) { e.Edit("one", `{"data":{"key":"x"}}`) }},
		"an owned value removed": {change: func(e *Env) { e.Edit("one", `{"data":{"key":null}}`) }},
		"a foreign value added":  {change: func(e *Env) { e.Edit("one", `{"data":{"foreign":"x"}}`) }},
		"the managed-by label gone": {change: func(e *Env) {
			e.Edit("one",
				`{"metadata":{"labels":{"resources.gardener.cloud/managed-by":null}}}`)
		}},
		"the managed-by label edited": {change: func(e *Env) {
			e.Edit("one",
				`{"metadata":{"labels":{"resources.gardener.cloud/managed-by":"x"}}}`)
		}},
		"the origin changed": {change: func(e *Env) {
			e.Edit("one", `{"metadata":{"annotations":{"resources.gardener.cloud/origin":"no/body"}}}`)
		}},
		"the description removed": {change: func(e *Env) {
			e.Edit("one", `{"metadata":{"annotations":{"resources.gardener.cloud/description":null}}}`)
		}},
		"the object deleted": {change: func(e *Env) {
			e.Expect(e.Target.Delete(e.Ctx, &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Namespace: e.Namespace, Name: "one"}})).To(Succeed())
		}},
		"managedFields reset and a value changed": {change: func(e *Env) {
			e.Edit("one", `{"data":{"key":"x"}}`)
			e.Edit("one", `{"metadata":{"managedFields":[{}]}}`)
		}},
		"taken over by a forced apply": {change: func(e *Env) {
			object := &corev1.ConfigMap{
				TypeMeta:   metav1.TypeMeta{APIVersion: "v1", Kind: "ConfigMap"},
				ObjectMeta: metav1.ObjectMeta{Namespace: e.Namespace, Name: "one"}, Data: map[string]string{"key": "x"},
			}
			//nolint:staticcheck // the typed replacement needs generated types
			e.Expect(e.Target.Patch(e.Ctx, object, client.Apply, client.FieldOwner("espalier"), client.ForceOwnership)).To(Succeed())
		}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			e := New(t, Options{})
			e.Set("mr", e.ConfigMap("one", "1"), e.ConfigMap("two", "2"))
			e.AwaitApplied("mr", succeeded)
			want := e.LiveConfigMap("one")
			untouched := e.LiveConfigMap("two").ResourceVersion
			e.Restart(func() { tc.change(e) })
			e.Eventually(func(g Gomega) {
				live := e.LiveConfigMap("one")
				g.Expect(live).NotTo(BeNil())
				g.Expect(live.Data).To(Equal(want.Data))
				g.Expect(live.Labels).To(Equal(want.Labels))
				g.Expect(live.Annotations).To(Equal(want.Annotations))
			}).WithTimeout(Patience).Should(Succeed())
			e.Expect(e.LiveConfigMap("two").ResourceVersion).To(Equal(untouched))
		})
	}
}

func TestAForeignLabelAddedWhileTheProcessIsDownCostsNoRead(t *testing.T) {
	t.Parallel()
	e := New(t, Options{Configure: longSyncPeriod})
	e.Set("mr", e.ConfigMap("one", "1"))
	e.AwaitApplied("mr", succeeded)
	e.Restart(func() {
		e.Edit("one", `{"metadata":{"labels":{"mine":"x"},"finalizers":["example.org/keep"]}}`)
		e.Requests.Reset()
	})
	awaitReconciled(e, 1)
	e.Expect(objectRequests(e)).To(BeEmpty())
	e.Edit("one", `{"metadata":{"finalizers":null}}`)
}

var errCut = errors.New("connection cut by the test")

// cutAfter lets n of the requests pass for which counts returns true. From the next such request on, all requests of the controller fail.
func cutAfter(e *Env, n int, counts func(*http.Request) bool) {
	var left atomic.Int64
	left.Store(int64(n))
	e.Requests.SetHook(func(r *http.Request) error {
		if left.Load() < 0 {
			return errCut
		}
		if counts(r) && left.Add(-1) < 0 {
			return errCut
		}
		return nil
	})
}

func creates(r *http.Request) bool {
	return r.Method == http.MethodPost && strings.HasSuffix(r.URL.Path, "/configmaps")
}

// The process dies during an apply, and the Secret has other content when the next process starts.
func TestACrashDuringAnApplyAndANewSecretLeaveNoOrphan(t *testing.T) {
	t.Parallel()
	for n := range 5 {
		t.Run(fmt.Sprintf("after %d creations", n), func(t *testing.T) {
			t.Parallel()
			e := New(t, Options{})
			cutAfter(e, n, creates)
			e.Set("mr", e.ConfigMap("a", "1"), e.ConfigMap("b", "1"), e.ConfigMap("c", "1"), e.ConfigMap("d", "1"))
			e.Eventually(func() int {
				sent := 0
				for _, each := range e.Requests.Seen() {
					if strings.HasPrefix(each, "POST") && strings.HasSuffix(each, "/configmaps") {
						sent++
					}
				}
				return sent
			}).WithTimeout(Patience).Should(BeNumerically(">=", n))
			e.Restart(func() {
				e.Secret("mr", e.ConfigMap("d", "2"), e.ConfigMap("e", "2"))
				e.Requests.SetHook(nil)
			})
			e.AwaitData("e", "2")
			e.AwaitApplied("mr", succeeded)
			e.Expect(configMaps(e)).To(Equal(map[string]string{"d": "2", "e": "2"}))
		})
	}
}

// configMaps returns the managed ConfigMaps of the target by name.
func configMaps(e *Env) map[string]string {
	list := &corev1.ConfigMapList{}
	e.Expect(e.Target.List(e.Ctx, list, client.InNamespace(e.Namespace),
		client.MatchingLabels{"resources.gardener.cloud/managed-by": "gardener"})).To(Succeed())
	found := map[string]string{}
	for _, each := range list.Items {
		found[each.Name] = each.Data["key"]
	}
	return found
}

// An object existed before the set. The set announces an object of the same name, but never writes it, and then no longer wants it. The
// existing object must stay.
func TestAnAnnouncedObjectThatWasNeverWrittenIsNotDeleted(t *testing.T) {
	t.Parallel()
	e := New(t, Options{})
	foreign := &corev1.ConfigMap{
		ObjectMeta: metav1.ObjectMeta{Namespace: e.Namespace, Name: "foreign"},
		Data:       map[string]string{"key": "mine"},
	}
	e.Expect(e.Target.Create(e.Ctx, foreign)).To(Succeed())
	cutAfter(e, 0, func(r *http.Request) bool {
		return strings.Contains(r.URL.Path, "/configmaps") && r.URL.Query().Get("watch") == ""
	})
	e.Set("mr", e.ConfigMap("foreign", "1"))
	e.Eventually(func() int { return len(e.Get("mr").Status.Resources) }).WithTimeout(Patience).Should(Equal(1))
	e.Restart(func() {
		e.Secret("mr", e.ConfigMap("other", "1"))
		e.Requests.SetHook(nil)
	})
	e.AwaitData("other", "1")
	e.AwaitApplied("mr", succeeded)
	e.Expect(e.LiveConfigMap("foreign").Data).To(Equal(map[string]string{"key": "mine"}))
}

// The labels that a set had before a change are still known after a crash in the middle of it.
func TestALabelDroppedInAnInterruptedChangeIsRemovedAfterRestart(t *testing.T) {
	t.Parallel()
	e := New(t, Options{})
	e.Set("mr", e.ConfigMap("c", "1", "labels: {gone: x, stays: here}"))
	e.AwaitApplied("mr", succeeded)
	cutAfter(e, 0, func(r *http.Request) bool {
		return r.Method == http.MethodPut && strings.HasSuffix(r.URL.Path, "/configmaps/c")
	})
	e.Secret("mr", e.ConfigMap("c", "2", "labels: {stays: here}"))
	e.Eventually(func() string { return Condition(e.Get("mr"), applied) }).WithTimeout(Patience).ShouldNot(Equal(succeeded))
	e.Restart(func() { e.Requests.SetHook(nil) })
	e.AwaitData("c", "2")
	e.Expect(e.LiveConfigMap("c").Labels).To(Equal(map[string]string{"stays": "here", "resources.gardener.cloud/managed-by": "gardener"}))
}

// The set that loses an object reports that at once, and not only in its next SyncPeriod.
func TestASetReportsAtOnceThatAnotherSetHasTakenAnObject(t *testing.T) {
	t.Parallel()
	e := New(t, Options{Configure: func(c *config.ResourceManagerConfiguration) {
		c.Controllers.ManagedResource.SyncPeriod = &metav1.Duration{Duration: time.Hour}
	}})
	e.Set("first", e.ConfigMap("shared", "first"))
	e.AwaitApplied("first", succeeded)
	e.Set("second", e.ConfigMap("shared", "second"))
	e.AwaitApplied("first", "False/ApplyFailed")
}

func TestTwoSetsThatWantOneObject(t *testing.T) {
	t.Parallel()
	const period = 2 * time.Second // which also bounds a pass
	e := New(t, Options{Configure: func(c *config.ResourceManagerConfiguration) {
		c.Controllers.ManagedResource.SyncPeriod = &metav1.Duration{Duration: period}
	}})
	e.Set("first", e.ConfigMap("shared", "first"), e.ConfigMap("of-first", "1"))
	e.AwaitApplied("first", succeeded)
	e.Set("second", e.ConfigMap("shared", "second"))
	e.AwaitApplied("second", succeeded)
	e.AwaitData("shared", "second")
	e.Eventually(func() string { // a pass that ran out of time fails too, for another reason
		loser := e.Get("first")
		return Condition(loser, applied) + ": " + Message(loser, applied)
	}).WithTimeout(Patience).Should(SatisfyAll(
		HavePrefix("False/ApplyFailed: "), ContainSubstring(`"v1/ConfigMap/%s/shared"`,
			e.Namespace), ContainSubstring("index 0 in 'objects.yaml' in secret '%s/first'", e.Namespace),
		ContainSubstring(`ManagedResource "%s/second"`, e.Namespace)))
	e.Eventually(func() []string { return e.Events("first") }).WithTimeout(Patience).Should(ContainElement(HavePrefix("ObjectClaimed: ")))

	t.Log("no loop, and other objects go on")
	version := e.LiveConfigMap("shared").ResourceVersion
	e.Requests.Reset()
	e.Edit("of-first", `{"data":{"key":"x"}}`)
	e.AwaitData("of-first", "1")
	e.Reconciled("first")
	e.Reconciled("second")
	e.Expect(e.LiveConfigMap("shared").ResourceVersion).To(Equal(version))

	t.Log("a restart does not turn the roles round")
	e.Restart(nil)
	awaitReconciled(e, 2)
	e.Reconciled("first")
	e.Reconciled("second")
	e.Expect(e.LiveConfigMap("shared").ResourceVersion).To(Equal(version))

	t.Log("a change of desired state takes the object")
	e.Secret("first", e.ConfigMap("shared", "first again"), e.ConfigMap("of-first", "1"))
	e.AwaitData("shared", "first again")
	e.AwaitApplied("first", succeeded)
	e.AwaitApplied("second", "False/ApplyFailed")

	t.Log("the loser's deletion leaves the object, the winner's gives it back")
	e.Expect(e.Source.Delete(e.Ctx, e.Get("second"))).To(Succeed())
	e.AwaitGone("second")
	e.Expect(e.LiveConfigMap("shared").Data["key"]).To(Equal("first again"))
}

func TestTheOtherSetAppliesAnObjectThatTheFirstSetDrops(t *testing.T) {
	t.Parallel()
	e := New(t, Options{})
	e.Set("first", e.ConfigMap("shared", "first"))
	e.AwaitApplied("first", succeeded)
	e.Set("second", e.ConfigMap("shared", "second"))
	e.AwaitApplied("second", succeeded)
	e.AwaitApplied("first", "False/ApplyFailed")
	e.Expect(e.Source.Delete(e.Ctx, e.Get("second"))).To(Succeed())
	e.AwaitGone("second")
	e.AwaitData("shared", "first")
	e.AwaitApplied("first", succeeded)
}

func TestRepairsPauseIfAnotherManagerChangesAnObjectAgainAndAgain(t *testing.T) {
	t.Parallel()
	now := clocktesting.NewFakeClock(time.Now()) // time passes only when the test advances the clock
	e := New(t, Options{Clock: now})
	e.Set("mr", e.ConfigMap("c", "1"), e.ConfigMap("d", "1"))
	e.AwaitApplied("mr", succeeded)
	for range 3 {
		e.Edit("c", `{"data":{"key":"x"}}`)
		e.AwaitData("c", "1")
	}
	e.Eventually(func() []string { return e.Events("mr") }).WithTimeout(Patience).
		Should(ContainElement(SatisfyAll(HavePrefix("DriftRepairPaused: "), ContainSubstring(`"kubectl-edit"`))))
	expectPaused := func() {
		e.Edit("c", `{"data":{"key":"x"}}`)
		e.Reconciled("mr")
		e.Expect(e.LiveConfigMap("c").Data).To(HaveKeyWithValue("key", "x"))
	}
	expectPaused()
	e.Edit("d", `{"data":{"key":"x"}}`)
	e.AwaitData("d", "1")
	e.Expect(e.LiveConfigMap("c").Data).To(HaveKeyWithValue("key", "x"))
	now.Step(10 * time.Second)
	e.AwaitData("c", "1")

	t.Log("a change of desired state does not wait for the end of a pause")
	for range 2 {
		e.Edit("c", `{"data":{"key":"x"}}`)
		e.AwaitData("c", "1")
	}
	expectPaused()
	e.Secret("mr", e.ConfigMap("c", "2"), e.ConfigMap("d", "1"))
	e.AwaitData("c", "2")
}

func TestAWaveThatDoesNotEndDelaysLaterWavesForALimitedTime(t *testing.T) {
	t.Parallel()
	const timeout = 10 * time.Second
	now := clocktesting.NewFakeClock(time.Now())
	e := New(t, Options{Clock: now, Configure: func(c *config.ResourceManagerConfiguration) {
		c.Espalier.ManagedResource.DeletionWaveTimeout = &metav1.Duration{Duration: timeout}
	}})
	service := fmt.Sprintf("apiVersion: v1\nkind: Service\nmetadata: {name: stuck, namespace: %s, finalizers: [example.org/stuck]}\n"+
		"spec: {clusterIP: None, ports: [{port: 80}]}", e.Namespace)
	e.Set("mr", service, e.ConfigMap("c", "1"))
	mr := e.AwaitApplied("mr", succeeded)
	e.Expect(e.Source.Delete(e.Ctx, mr)).To(Succeed())
	live := &corev1.Service{}
	e.Eventually(func() *metav1.Time {
		e.Expect(e.Target.Get(e.Ctx, client.ObjectKey{Namespace: e.Namespace, Name: "stuck"}, live)).To(Succeed())
		return live.DeletionTimestamp
	}).WithTimeout(Patience).ShouldNot(BeNil())

	// The queue of the controller uses the real clock: it sleeps for the time that is left on the fake clock.
	const moment = 100 * time.Millisecond
	now.Step(timeout - moment)
	e.AwaitCondition("mr", applied, "Progressing/DeletionPending")
	e.Expect(e.LiveConfigMap("c")).NotTo(BeNil(), "at the end of the pass that reports what is pending")
	now.Step(moment)
	e.Eventually(func() *corev1.ConfigMap { return e.LiveConfigMap("c") }).WithTimeout(Patience).Should(BeNil())
	e.Expect(e.Target.Get(e.Ctx, client.ObjectKey{Namespace: e.Namespace, Name: "stuck"}, live)).To(Succeed())
	controllerutil.RemoveFinalizer(live, "example.org/stuck")
	e.Expect(e.Target.Update(e.Ctx, live)).To(Succeed())
	e.AwaitGone("mr")
}

func TestObjectsThatTheControllerNeedsAreNeverDeletedOrOverwritten(t *testing.T) {
	t.Parallel()
	e := New(t, Options{})
	own := fmt.Sprintf("apiVersion: v1\nkind: Secret\nmetadata: {name: mr, namespace: %s}\nstringData: {a: b}", e.Namespace)
	namespace := fmt.Sprintf("apiVersion: v1\nkind: Namespace\nmetadata: {name: %s}", e.Namespace)
	e.Set("mr", own, namespace, e.ConfigMap("c", "1"))
	mr := e.AwaitApplied("mr", "False/ApplyFailed")
	e.Expect(Message(mr, applied)).To(SatisfyAll(ContainSubstring(`"v1/Secret/%s/mr"`, e.Namespace),
		ContainSubstring("a set must not contain itself or a Secret that it is read from"), ContainSubstring("index 0 in 'objects.yaml'")))
	e.AwaitData("c", "1")
	e.Expect(e.Source.Delete(e.Ctx, mr)).To(Succeed())
	e.AwaitGone("mr")
	e.Expect(e.LiveConfigMap("c")).To(BeNil())
	live := &corev1.Namespace{}
	e.Expect(e.Target.Get(e.Ctx, client.ObjectKey{Name: e.Namespace}, live)).To(Succeed())
	e.Expect(live.DeletionTimestamp).To(BeNil())
	e.Expect(e.Source.Get(e.Ctx, client.ObjectKey{Namespace: e.Namespace, Name: "mr"}, &corev1.Secret{})).To(Succeed())
	e.Eventually(func() []string { return e.Events("mr") }).WithTimeout(Patience).Should(ContainElement(HavePrefix("DeletionRefused: ")))
}

func TestNamespacesOfObjectsCanBeRestricted(t *testing.T) {
	t.Parallel()
	e := New(t, Options{Configure: func(c *config.ResourceManagerConfiguration) {
		c.Espalier.ManagedResource.Namespaces = &config.EspalierNamespaces{Objects: &[]string{}, ClusterScoped: new(bool)}
	}})
	e.Set("mr", e.ConfigMap("c", "1"), fmt.Sprintf("apiVersion: v1\nkind: Namespace\nmetadata: {name: %s-x}", e.Namespace))
	mr := e.AwaitApplied("mr", "False/ApplyFailed")
	e.Expect(Message(mr, applied)).To(SatisfyAll(ContainSubstring("espalier.managedResource.namespaces.objects"),
		ContainSubstring("espalier.managedResource.namespaces.clusterScoped")))
	e.Expect(e.LiveConfigMap("c")).To(BeNil())
}

func TestSetsOfARefusedNamespaceReportIt(t *testing.T) {
	t.Parallel()
	e := New(t, Options{Configure: func(c *config.ResourceManagerConfiguration) {
		c.Espalier.ManagedResource.Namespaces = &config.EspalierNamespaces{Sets: &[]string{"elsewhere"}}
	}})
	e.Set("mr", e.ConfigMap("c", "1"))
	mr := e.AwaitApplied("mr", "False/ApplyFailed")
	e.Expect(Message(mr, applied)).To(ContainSubstring("espalier.managedResource.namespaces.sets"))
	e.Expect(e.LiveConfigMap("c")).To(BeNil())
}

// All objects are as gardener-resource-manager leaves them.
func TestTakingOverFromGardenerResourceManagerWritesNothing(t *testing.T) {
	t.Parallel()
	for name, two := range map[string]bool{"one cluster": false, "two clusters": true} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			e := New(t, Options{TwoClusters: two, Configure: longSyncPeriod})
			e.Set("mr", manifests(e)...)
			e.AwaitApplied("mr", succeeded)
			awaitRollout(e, two)
			e.Restart(func() {
				asGardener(e)
				e.Requests.Reset()
			})
			before := e.Get("mr")
			versions := resourceVersions(e)
			awaitReconciled(e, 8)
			e.Expect(writes(e)).To(BeEmpty())
			e.Expect(resourceVersions(e)).To(Equal(versions))
			e.Expect(e.Get("mr")).To(BeComparableTo(before))

			t.Log("and back: drift is repaired all the same")
			e.Edit("one", `{"data":{"key":"x"}}`)
			e.AwaitData("one", "1")
		})
	}
}

// asGardener makes every managed object look as if only gardener-resource-manager had written it, by an update.
func asGardener(e *Env) {
	for _, object := range managed(e) {
		e.Eventually(func() error { // until no controller of Kubernetes interferes
			if err := e.Target.Get(e.Ctx, client.ObjectKeyFromObject(object), object); err != nil {
				return err
			}
			entries := object.GetManagedFields()
			for i := range entries {
				if entries[i].Manager == "espalier" {
					entries[i].Manager = "gardener-resource-manager"
				}
			}
			object.SetManagedFields(entries)
			return e.Target.Update(e.Ctx, object, client.FieldOwner("gardener-resource-manager"))
		}).WithTimeout(Patience).Should(Succeed())
	}
}

func managed(e *Env) []client.Object {
	var found []client.Object
	for _, ref := range e.Get("mr").Status.Resources {
		object := Unstructured(ref)
		e.Expect(e.Target.Get(e.Ctx, client.ObjectKey{Namespace: ref.Namespace, Name: ref.Name}, object)).To(Succeed())
		found = append(found, object)
	}
	return found
}

func resourceVersions(e *Env) map[string]string {
	versions := map[string]string{}
	for _, object := range managed(e) {
		versions[object.GetObjectKind().GroupVersionKind().Kind+"/"+object.GetName()] = object.GetResourceVersion()
	}
	return versions
}
