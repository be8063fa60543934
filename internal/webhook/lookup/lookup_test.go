package lookup

import (
	"context"
	"errors"
	"strings"
	"testing"

	. "github.com/onsi/gomega"
	autoscalingv2 "k8s.io/api/autoscaling/v2"
	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

// world creates one or more objects for each kind of look-up.
func (e *env) world() {
	e.t.Helper()
	namespace := &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: e.namespace}}
	change := []byte(`{"metadata":{"annotations":{"other":"x","high-availability-config.resources.gardener.cloud/zones":"a,b"}}}`)
	e.Expect(e.admin.Patch(e.t.Context(), namespace, client.RawPatch("application/merge-patch+json", change))).To(Succeed())
	node := &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: e.namespace + "-n1", Labels: map[string]string{"pool": e.namespace}}}
	node.Spec.Taints = []corev1.Taint{{Key: "k2", Effect: "NoSchedule"}, {Key: "k1", Value: "v1", Effect: "NoExecute"}}
	other := &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: e.namespace + "-n2"}}
	other.Spec.Taints = []corev1.Taint{{Key: "k3", Effect: "NoSchedule"}}
	e.create(
		autoscaler(e.namespace, "web-a", "apps/v1", "Deployment", "web", 7),
		autoscaler(e.namespace, "web-b", "apps/v1", "Deployment", "web", 8),
		autoscaler(e.namespace, "old", "apps/v1beta1", "Deployment", "old", 8),
		autoscaler(e.namespace, "set", "apps/v1", "StatefulSet", "set", 8),
		&corev1.ServiceAccount{ObjectMeta: metav1.ObjectMeta{Namespace: e.namespace, Name: "robot"}, AutomountServiceAccountToken: ptr.To(false)},
		&corev1.ServiceAccount{ObjectMeta: metav1.ObjectMeta{Namespace: e.namespace, Name: "silent"}},
		node, other,
	)
}

// everythingIsFound requires the correct answers about the objects of world.
func (e *env) everythingIsFound() {
	e.t.Helper()
	ctx := e.t.Context()
	annotations, err := e.Annotations(ctx, e.namespace)
	e.Expect(err).NotTo(HaveOccurred())
	e.Expect(annotations).To(HaveKeyWithValue("high-availability-config.resources.gardener.cloud/zones", "a,b"))
	e.Expect(e.scalingOf(e.target("web"))).To(Equal(scaling{limit: 7, scaled: true}), "the first by name counts")
	for _, name := range []string{"old", "set", "missing", ""} {
		e.Expect(e.scalingOf(e.target(name))).To(Equal(scaling{}), name)
	}
	automount, err := e.Automount(ctx, types.NamespacedName{Namespace: e.namespace, Name: "robot"})
	e.Expect(err).NotTo(HaveOccurred())
	e.Expect(automount).To(HaveValue(BeFalse()))
	automount, err = e.Automount(ctx, types.NamespacedName{Namespace: e.namespace, Name: "silent"})
	e.Expect(err).NotTo(HaveOccurred())
	e.Expect(automount).To(BeNil())
	for range 2 {
		var pool []corev1.Taint
		pool, err = e.Taints(ctx, map[string]string{"pool": e.namespace})
		e.Expect(err).NotTo(HaveOccurred())
		e.Expect(pool).To(Equal([]corev1.Taint{
			{Key: "k1", Value: "v1", Effect: "NoExecute"},
			{Key: "k2", Effect: "NoSchedule"},
			{Key: "node.kubernetes.io/not-ready", Effect: "NoSchedule"},
		}))
	}
	taints, err := e.Taints(ctx, nil)
	e.Expect(err).NotTo(HaveOccurred())
	e.Expect(taints).To(ContainElement(corev1.Taint{Key: "k3", Effect: "NoSchedule"}))
}

func TestWarmLookupsSendNoRequest(t *testing.T) {
	// The objects exist before the start, so that synced caches contain them.
	e := start(t, options{cold: true})
	e.world()
	warm := start(t, options{})
	warm.namespace = e.namespace
	warm.warm()
	warm.requests.Reset()
	warm.everythingIsFound()
	warm.Expect(warm.requests.Seen()).To(BeEmpty())
}

func TestColdLookupsReadLive(t *testing.T) {
	e := start(t, options{cold: true})
	e.world()
	e.requests.Reset()
	e.everythingIsFound()
	e.Expect(e.requests.Seen()).To(ContainElements(
		"GET /api/v1/namespaces/"+e.namespace,
		e.path("/apis/autoscaling/v2", "horizontalpodautoscalers"),
		e.path("/apis/autoscaling.k8s.io/v1alpha1", "hvpas"),
		e.path("/api/v1", "serviceaccounts/robot"),
		"GET /api/v1/nodes",
	))
}

func TestARestrictedConnectionReadsOtherNamespacesLive(t *testing.T) {
	before := start(t, options{cold: true}) // the objects exist before the start, as above
	before.world()
	e := start(t, options{namespaces: []string{"default"}})
	e.namespace = before.namespace
	e.warm()
	e.requests.Reset()
	e.everythingIsFound()
	e.Expect(e.requests.Seen()).
		To(ContainElements(e.path("/apis/autoscaling/v2", "horizontalpodautoscalers"), e.path("/api/v1", "serviceaccounts/robot")))
}

// synced is an informer that returns a fixed value.
type synced bool

func (s synced) HasSynced() bool { return bool(s) }

// nothing is a cache without objects, which returns NotFound.
type nothing struct{ client.Reader }

func (nothing) Get(context.Context, client.ObjectKey, client.Object, ...client.GetOption) error {
	return apierrors.NewNotFound(schema.GroupResource{Resource: "Kind"}, "x")
}

func (nothing) List(context.Context, client.ObjectList, ...client.ListOption) error {
	return errors.New("no index")
}

func TestWhatACacheMissesIsReadLive(t *testing.T) {
	e := start(t, options{cold: true})
	e.world()
	e.cached = nothing{}
	for kind := range e.informers {
		e.informers[kind] = synced(true)
	}
	e.everythingIsFound()
}

func TestWhatIsNowhereIsNotFound(t *testing.T) {
	e := start(t, options{})
	e.warm()
	_, err := e.Annotations(t.Context(), "lookup-missing")
	e.Expect(err).To(MatchError(`namespaces "lookup-missing" not found`))
	e.Expect(apierrors.IsNotFound(err)).To(BeTrue())
	_, err = e.Automount(t.Context(), types.NamespacedName{Namespace: e.namespace, Name: "some-service-account"})
	e.Expect(err).To(MatchError(`serviceaccounts "some-service-account" not found`))
	e.Expect(apierrors.IsNotFound(err)).To(BeTrue())
}

func TestChangesAreSeen(t *testing.T) {
	e := start(t, options{})
	e.warm()
	e.world()
	ctx := t.Context()
	e.eventually(func() scaling { return e.scalingOf(e.target("web")) }).Should(Equal(scaling{limit: 7, scaled: true}))
	e.Expect(e.admin.Delete(ctx, autoscaler(e.namespace, "web-a", "", "", "", 0))).To(Succeed())
	e.eventually(func() scaling { return e.scalingOf(e.target("web")) }).Should(Equal(scaling{limit: 8, scaled: true}))
	changed := &autoscalingv2.HorizontalPodAutoscaler{}
	e.Expect(e.admin.Get(ctx, client.ObjectKey{Namespace: e.namespace, Name: "web-b"}, changed)).To(Succeed())
	changed.Spec.ScaleTargetRef.Name = "shop"
	e.Expect(e.admin.Update(ctx, changed)).To(Succeed())
	e.eventually(func() scaling { return e.scalingOf(e.target("web")) }).Should(Equal(scaling{}))
	e.Expect(e.scalingOf(e.target("shop"))).To(Equal(scaling{limit: 8, scaled: true}))
}

func TestChangesOfNodesAreSeen(t *testing.T) {
	e := start(t, options{})
	e.world()
	e.warm()
	ctx := t.Context()
	pool := map[string]string{"pool": e.namespace}
	keys := func() []string {
		taints, err := e.Taints(ctx, pool)
		e.Expect(err).NotTo(HaveOccurred())
		found := []string{}
		for _, each := range taints {
			found = append(found, each.Key)
		}
		return found
	}
	e.eventually(keys).Should(Equal([]string{"k1", "k2", "node.kubernetes.io/not-ready"}))

	other := &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: e.namespace + "-n2"}}
	joins := []byte(`{"metadata":{"labels":{"pool":"` + e.namespace + `"}}}`)
	e.Expect(e.admin.Patch(ctx, other, client.RawPatch("application/merge-patch+json", joins))).To(Succeed())
	e.eventually(keys).Should(Equal([]string{"k1", "k2", "k3", "node.kubernetes.io/not-ready"}))
	e.Expect(e.admin.Patch(ctx, other,
		client.RawPatch("application/merge-patch+json", []byte(`{"spec":{"taints":[{"key":"k4","effect":"NoSchedule"}]}}`)))).To(Succeed())
	e.eventually(keys).Should(Equal([]string{"k1", "k2", "k4", "node.kubernetes.io/not-ready"}))
	e.Expect(e.admin.Delete(ctx, other)).To(Succeed())
	e.eventually(keys).Should(Equal([]string{"k1", "k2", "node.kubernetes.io/not-ready"}))

	// The event handler is called after the cache has changed: an answer that was remembered in between is forgotten again.
	e.eventually(func() bool {
		for range 3 { // one answer that may be computed, and two from the memory
			taints, err := e.Taints(ctx, pool)
			e.Expect(err).NotTo(HaveOccurred())
			e.Expect(taints).To(HaveLen(3))
			e.Expect(taints[0].Key).To(Equal("k1"))
			taints[0].Key = "changed by a caller"
		}
		_, _, known := e.taints.cachedAnswer(pool)
		return known
	}).Should(BeTrue())
	e.Expect(keys()).To(Equal([]string{"k1", "k2", "node.kubernetes.io/not-ready"}))
}

func TestWhatANodeReportsAboutItselfDoesNotCount(t *testing.T) {
	g := NewWithT(t)
	known := &taints{}
	before := &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: "n", ResourceVersion: "1", Labels: map[string]string{"pool": "a"}}}
	before.Spec.Taints = []corev1.Taint{{Key: "k", Effect: "NoSchedule"}}
	for _, tc := range []struct {
		change func(*corev1.Node)
		counts uint64
	}{
		{func(node *corev1.Node) { node.Status.Phase = corev1.NodeRunning }, 0},
		{func(node *corev1.Node) { node.Labels = map[string]string{"pool": "b"} }, 1},
		{func(node *corev1.Node) { node.Spec.Taints[0].Key = "other" }, 1},
	} {
		after := before.DeepCopy()
		after.ResourceVersion = "2"
		tc.change(after)
		known.changes.Store(0)
		known.handler().OnUpdate(before, after)
		g.Expect(known.changes.Load()).To(Equal(tc.counts), after.String())
	}
}

func TestHvpasComeAndGo(t *testing.T) {
	e := start(t, options{})
	e.serveNoHvpas()
	e.warm()
	web := e.target("web")
	settled := func(want scaling) {
		t.Helper()
		e.eventually(func(g Gomega) {
			e.requests.Reset()
			g.Expect(e.scalingOf(web)).To(Equal(want))
			g.Expect(e.requests.Seen()).To(BeEmpty(), "the answer comes from a watch")
		}).Should(Succeed())
	}
	settled(scaling{})

	e.serveHvpas()
	elsewhere := start(t, options{cold: true}).namespace
	nameless := hvpaOf(e.namespace, "a-nameless", "web", true, 3)
	unstructured.RemoveNestedField(nameless.Object, "spec", "targetRef")
	odd := hvpaOf(e.namespace, "a-odd", "web", true, 3)
	odd.Object["spec"] = map[string]any{"targetRef": "web", "hpa": []any{map[string]any{"deploy": "yes"}}}
	e.create(
		hvpaOf(e.namespace, "a-not-deployed", "web", false, 4), hvpaOf(elsewhere, "a-elsewhere", "web", true, 5), nameless, odd,
		hvpaOf(e.namespace, "web-b", "web", true, 7), hvpaOf(e.namespace, "web-a", "web", true, 6),
	)
	settled(scaling{limit: 6, scaled: true})
	e.Expect(e.scalingOf(e.target("api"))).To(Equal(scaling{}))
	e.Expect(start(t, options{cold: true}).scalingOf(web)).To(Equal(scaling{limit: 6, scaled: true}), "the live answer is the same")

	e.create(autoscaler(e.namespace, "web", "apps/v1", "Deployment", "web", 9))
	settled(scaling{limit: 9, scaled: true})
	e.Expect(e.admin.Delete(t.Context(), autoscaler(e.namespace, "web", "", "", "", 0))).To(Succeed())
	settled(scaling{limit: 6, scaled: true})

	e.serveNoHvpas()
	settled(scaling{})

	e.serveHvpas()
	settled(scaling{})
	e.create(hvpaOf(e.namespace, "again", "web", true, 11))
	settled(scaling{limit: 11, scaled: true})
}

// missing is a cache whose lists are empty.
type missing struct{ client.Reader }

func (missing) List(context.Context, client.ObjectList, ...client.ListOption) error { return nil }

func TestLiveAnswerIncludesWhatNoWatchHasReported(t *testing.T) {
	e := start(t, options{})
	e.serveNoHvpas()
	e.world()
	e.warm()
	e.cached = missing{}
	web := e.target("web")
	e.requests.Reset()
	e.Expect(e.scalingOf(web)).To(Equal(scaling{}))
	e.Expect(e.requests.Seen()).To(BeEmpty())
	e.Expect(e.scalingNow(web)).To(Equal(scaling{limit: 7, scaled: true}))
	e.Expect(e.scalingNow(e.target("missing"))).To(Equal(scaling{}), "no Hvpas are served")
	e.Expect(e.scalingNow(e.target(""))).To(Equal(scaling{}))
	list := e.path("/apis/autoscaling/v2", "horizontalpodautoscalers")
	e.Expect(e.requests.Seen()).To(Equal([]string{list, list}))
}

func TestTheLiveAnswerKnowsHvpas(t *testing.T) {
	e := start(t, options{})
	e.serveHvpas()
	e.eventually(e.watchesHvpas).Should(BeTrue())
	db := hvpaOf(e.namespace, "db", "db", true, 6)
	e.create(db)
	e.eventually(func() scaling { return e.scalingOf(e.target("db")) }).Should(Equal(scaling{limit: 6, scaled: true}))
	e.Expect(e.hvpas.current.Load().GetStore().Delete(&scaler{ObjectMeta: metav1.ObjectMeta{Namespace: e.namespace, Name: "db"}})).
		To(Succeed())
	e.requests.Reset()
	e.Expect(e.scalingOf(e.target("db"))).To(Equal(scaling{}))
	e.Expect(e.requests.Seen()).To(BeEmpty())
	e.Expect(e.scalingNow(e.target("db"))).To(Equal(scaling{limit: 6, scaled: true}))
	e.Expect(e.requests.Seen()).To(ConsistOf(
		e.path("/apis/autoscaling/v2", "horizontalpodautoscalers"), e.path("/apis/autoscaling.k8s.io/v1alpha1", "hvpas"),
	))
}

// watchesHvpas reports whether answers about Hvpas come from a watch.
func (e *env) watchesHvpas() bool {
	current := e.hvpas.current.Load()
	return current != nil && current.HasSynced()
}

// TestHvpasOfAVersionThatIsNoLongerServedScaleNothing keeps the definition, so the watch does not end with it.
func TestHvpasOfAVersionThatIsNoLongerServedScaleNothing(t *testing.T) {
	e := start(t, options{})
	e.serveHvpas()
	e.eventually(e.watchesHvpas).Should(BeTrue())
	e.create(hvpaOf(e.namespace, "db", "db", true, 6))
	db := e.target("db")
	e.eventually(func() scaling { return e.scalingOf(db) }).Should(Equal(scaling{limit: 6, scaled: true}))

	next := hvpaDefinition().Spec.Versions[0]
	next.Name = "v1beta1"
	versions := func(served bool) {
		e.eventually(func() error { // retried, because the API server may write the status at the same moment
			changed := hvpaDefinition()
			if err := e.admin.Get(t.Context(), client.ObjectKeyFromObject(changed), changed); err != nil {
				return err
			}
			changed.Spec.Versions = []apiextensionsv1.CustomResourceDefinitionVersion{*changed.Spec.Versions[0].DeepCopy(), next}
			changed.Spec.Versions[0].Served, changed.Spec.Versions[1].Storage = served, false
			return e.admin.Update(t.Context(), changed)
		}).Should(Succeed())
	}
	versions(false)
	e.eventually(func() *following { return e.hvpas.current.Load() }).Should(BeNil())
	e.eventually(func() scaling { return e.scalingOf(db) }).Should(Equal(scaling{}))

	versions(true)
	e.eventually(func(g Gomega) {
		e.requests.Reset()
		g.Expect(e.scalingOf(db)).To(Equal(scaling{limit: 6, scaled: true}))
		g.Expect(e.requests.Seen()).To(BeEmpty(), "the answer comes from a watch")
	}).Should(Succeed())
}

func TestHvpasThatAreNotServedNeedNoRight(t *testing.T) {
	admin := start(t, options{cold: true})
	admin.serveNoHvpas()
	admin.eventually(func() error {
		_, err := admin.manager.GetRESTMapper().RESTMapping(schema.GroupKind{Group: "autoscaling.k8s.io", Kind: "Hvpa"}, "v1alpha1")
		return err
	}).Should(MatchError(ContainSubstring("no matches for kind")))
	as, name := user(t, admin.admin, without("hvpas", "definition")...)
	e := start(t, options{as: as, unmanaged: true})
	e.Expect(e.scalingOf(e.target("db"))).To(Equal(scaling{}))
	e.Expect(e.scalingNow(e.target("db"))).To(Equal(scaling{}))
	e.serveHvpas()
	e.eventually(func() string { return e.scalingOf(e.target("db")).err }).
		Should(ContainSubstring(`failed to list all HVPAs: hvpas.autoscaling.k8s.io is forbidden: User "` + name + `"`))
}

func TestHvpasAreFollowedAnewOnlyIfNeeded(t *testing.T) {
	e := start(t, options{})
	e.serveHvpas()
	e.eventually(e.watchesHvpas).Should(BeTrue())
	first := e.hvpas.current.Load()
	definition := func(uid types.UID) *metav1.PartialObjectMetadata {
		return &metav1.PartialObjectMetadata{ObjectMeta: metav1.ObjectMeta{UID: uid}}
	}
	e.hvpas.watchHvpas(t.Context(), definition(first.of))
	e.Expect(e.hvpas.current.Load()).To(BeIdenticalTo(first))
	e.hvpas.watchHvpas(t.Context(), definition("made again"))
	e.Expect(e.hvpas.current.Load()).NotTo(BeIdenticalTo(first))
	e.eventually(first.IsStopped).Should(BeTrue())
	e.eventually(e.watchesHvpas).Should(BeTrue())
}

// rights returns the rules of the generated roles, by a short name.
func rights() map[string]rbacv1.PolicyRule {
	return map[string]rbacv1.PolicyRule{
		"namespaces":      {APIGroups: []string{""}, Resources: []string{"namespaces"}, Verbs: []string{"get", "list", "watch"}},
		"serviceaccounts": {APIGroups: []string{""}, Resources: []string{"serviceaccounts"}, Verbs: []string{"get", "list", "watch"}},
		"nodes":           {APIGroups: []string{""}, Resources: []string{"nodes"}, Verbs: []string{"list", "watch"}},
		"hpas": {
			APIGroups: []string{"autoscaling"}, Resources: []string{"horizontalpodautoscalers"}, Verbs: []string{"list", "watch"},
		},
		"hvpas": {APIGroups: []string{"autoscaling.k8s.io"}, Resources: []string{"hvpas"}, Verbs: []string{"list", "watch"}},
		"definition": {
			APIGroups: []string{"apiextensions.k8s.io"}, Resources: []string{"customresourcedefinitions"},
			ResourceNames: []string{"hvpas.autoscaling.k8s.io"}, Verbs: []string{"list", "watch"},
		},
	}
}

// without returns all rights but these.
func without(names ...string) []rbacv1.PolicyRule {
	left := rights()
	for _, each := range names {
		delete(left, each)
	}
	var rules []rbacv1.PolicyRule
	for _, each := range left {
		rules = append(rules, each)
	}
	return rules
}

func TestTheShippedRightsAreEnough(t *testing.T) {
	before := start(t, options{cold: true})
	before.world()
	before.serveHvpas()
	before.create(hvpaOf(before.namespace, "db", "db", true, 6))
	as, _ := user(t, before.admin, without()...)
	e := start(t, options{as: as})
	e.namespace = before.namespace
	e.warm()
	e.eventually(e.watchesHvpas).Should(BeTrue())
	e.requests.Reset()
	e.everythingIsFound()
	e.Expect(e.scalingOf(e.target("db"))).To(Equal(scaling{limit: 6, scaled: true}))
	e.Expect(e.requests.Seen()).To(BeEmpty())
}

func TestMissingRightsAreErrorsOfTheRequest(t *testing.T) {
	admin := start(t, options{cold: true})
	admin.world()
	admin.serveHvpas()
	admin.create(hvpaOf(admin.namespace, "db", "db", true, 6))
	forbidden := func(resource, group, verb, name string) string {
		return resource + ` is forbidden: User "USER" cannot ` + verb + ` resource "` + name + `" in API group "` + group + `"`
	}
	for name, tc := range map[string]struct {
		missing string
		ask     func(e *env) error
		want    string
	}{
		"namespaces": {missing: "namespaces", ask: func(e *env) error {
			_, err := e.Annotations(t.Context(), e.namespace)
			return err
		}, want: forbidden(`namespaces "NAMESPACE"`, "", "get", "namespaces")},
		"ServiceAccounts": {missing: "serviceaccounts", ask: func(e *env) error {
			_, err := e.Automount(t.Context(), types.NamespacedName{Namespace: e.namespace, Name: "robot"})
			return err
		}, want: forbidden(`serviceaccounts "robot"`, "", "get", "serviceaccounts")},
		"Nodes": {missing: "nodes", ask: func(e *env) error {
			_, err := e.Taints(t.Context(), nil)
			return err
		}, want: forbidden("nodes", "", "list", "nodes")},
		"HPAs": {missing: "hpas", ask: func(e *env) error {
			_, _, err := e.MaxReplicas(t.Context(), e.target("web"))
			return err
		}, want: "failed to list all HPAs: " +
			forbidden("horizontalpodautoscalers.autoscaling", "autoscaling", "list", "horizontalpodautoscalers")},
		"HVPAs": {missing: "hvpas", ask: func(e *env) error {
			_, _, err := e.MaxReplicas(t.Context(), e.target("db"))
			return err
		}, want: "failed to list all HVPAs: " + forbidden("hvpas.autoscaling.k8s.io", "autoscaling.k8s.io", "list", "hvpas")},
	} {
		t.Run(name, func(t *testing.T) {
			as, name := user(t, admin.admin, without(tc.missing)...)
			e := start(t, options{as: as, unmanaged: true})
			e.namespace = admin.namespace
			err := tc.ask(e)
			want := strings.NewReplacer("NAMESPACE", e.namespace, "USER", name).Replace(tc.want)
			e.Expect(err).To(MatchError(ContainSubstring(want)))
			e.Expect(apierrors.IsForbidden(err)).To(BeTrue(), "its status is for the answer")
		})
	}
	t.Run("the definition of Hvpas", func(t *testing.T) {
		as, _ := user(t, admin.admin, without("definition")...)
		e := start(t, options{as: as})
		e.namespace = admin.namespace
		e.Expect(e.scalingOf(e.target("db"))).To(Equal(scaling{limit: 6, scaled: true}), "Hvpas are listed instead")
	})
}
