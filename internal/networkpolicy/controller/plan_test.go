package controller

import (
	"testing"
	"time"

	. "github.com/onsi/gomega"
	corev1 "k8s.io/api/core/v1"
	networkingv1 "k8s.io/api/networking/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/types"
	clocktesting "k8s.io/utils/clock/testing"

	"github.com/espalier-dev/espalier/internal/networkpolicy/desired"
)

func named(name string) types.NamespacedName {
	return types.NamespacedName{Namespace: "ns", Name: name}
}

func policyCalled(name string) *networkingv1.NetworkPolicy {
	return &networkingv1.NetworkPolicy{ObjectMeta: metav1.ObjectMeta{Namespace: "ns", Name: name}}
}

func TestPlan(t *testing.T) {
	a, same := policyCalled("a"), desired.Fingerprint(policyCalled("a"))
	for name, tc := range map[string]struct {
		want []*networkingv1.NetworkPolicy
		have map[types.NamespacedName]existing
		keep map[types.NamespacedName]bool
		plan []change
	}{
		"nothing wanted, nothing there": {},
		"what is missing is created": {
			want: []*networkingv1.NetworkPolicy{a}, plan: []change{{action: "create", policy: named("a"), want: a}},
		},
		"what is equal is left alone": {
			want: []*networkingv1.NetworkPolicy{a}, have: map[types.NamespacedName]existing{named("a"): {fingerprint: same, version: "1"}},
		},
		"what differs is updated": {
			want: []*networkingv1.NetworkPolicy{a}, have: map[types.NamespacedName]existing{named("a"): {fingerprint: "x", version: "1"}},
			plan: []change{{action: "update", policy: named("a"), want: a, have: existing{fingerprint: "x", version: "1"}}},
		},
		"what is not wanted is deleted, in order": {
			have: map[types.NamespacedName]existing{named("c"): {uid: "3"}, named("b"): {uid: "2"}},
			plan: []change{
				{action: "delete", policy: named("b"), have: existing{uid: "2"}}, {action: "delete", policy: named("c"), have: existing{uid: "3"}},
			},
		},
		"what is unknown is kept": {
			have: map[types.NamespacedName]existing{named("b"): {uid: "2"}}, keep: map[types.NamespacedName]bool{named("b"): true},
		},
	} {
		t.Run(name, func(t *testing.T) {
			NewWithT(t).Expect(plan(tc.want, tc.have, tc.keep)).To(Equal(tc.plan))
		})
	}
}

func TestDescribeChangesIsBounded(t *testing.T) {
	var changes []change
	for _, name := range []string{"a", "b", "c", "d", "e", "f", "g", "h", "i", "j"} {
		changes = append(changes, change{action: actionDelete, policy: named(name)})
	}
	NewWithT(t).Expect(describeChanges(changes)).
		To(Equal("Would create 0, update 0 and delete 10 NetworkPolicies, but the controller only observes: " +
			"delete ns/a, delete ns/b, delete ns/c, delete ns/d, delete ns/e, delete ns/f, delete ns/g, delete ns/h and 2 more"))
}

func TestWritesAreNoNewsWhenTheyArrive(t *testing.T) {
	g, passive := NewWithT(t), clocktesting.NewFakePassiveClock(time.Unix(1000, 0))
	w := NewWrites(passive)
	g.Expect(w.arrived(named("s"), named("p"), "x")).To(BeFalse(), "no client has written it")
	w.begin(named("s"), named("p"), "x")
	g.Expect(w.of(named("s"))).To(Equal(map[types.NamespacedName]string{named("p"): "x"}))
	g.Expect(w.arrived(named("s"), named("p"), "x")).To(BeTrue())
	g.Expect(w.arrived(named("s"), named("p"), "x")).To(BeFalse(), "it has arrived before")
	w.begin(named("s"), named("p"), "x")
	g.Expect(w.arrived(named("s"), named("p"), "y")).To(BeFalse(), "another client has written since")
	g.Expect(w.of(named("s"))).To(BeEmpty())
	w.begin(named("s"), named("p"), "x")
	w.fail(named("s"), named("p"))
	g.Expect(w.arrived(named("s"), named("p"), "x")).To(BeFalse(), "it has failed")
	w.begin(named("s"), named("p"), "x")
	passive.SetTime(time.Unix(1060, 0))
	g.Expect(w.of(named("s"))).To(BeEmpty(), "it is too long ago")
	w.begin(named("s"), named("p"), "x")
	passive.SetTime(time.Unix(1120, 0))
	g.Expect(w.arrived(named("s"), named("p"), "x")).To(BeFalse(), "another client may have written the same")
}

func TestScopes(t *testing.T) {
	g, s := NewWithT(t), &scopes{}
	g.Expect(s.take(named("s"))).To(Equal(scope{whole: true}), "a run without a reason is a repetition")
	s.requestClient(named("s"), "b")
	s.requestClient(named("s"), "c")
	g.Expect(s.take(named("s"))).To(Equal(scope{clients: map[string]bool{"b": true, "c": true}}))
	s.requestClient(named("s"), "b")
	s.requestAll(named("s"))
	g.Expect(s.take(named("s")).whole).To(BeTrue())
	s.requestClient(named("s"), "c")
	g.Expect(s.take(named("s"))).To(Equal(scope{clients: map[string]bool{"c": true}}), "earlier requests are dropped")
}

func TestSelections(t *testing.T) {
	g, s := NewWithT(t), &selections{}
	all, some := `[{}]`, `[{"matchLabels":{"a":"b"}}]`
	s.set(named("all"), all, true)
	s.set(named("some"), some, true)
	s.set(named("same"), some, true)
	s.set(named("bad"), `[`, true)
	s.set(named("none"), "", false)
	g.Expect(s.differing(nil, labels.Set{})).To(ConsistOf(named("all")))
	g.Expect(s.differing(labels.Set{}, labels.Set{"a": "b"})).To(ConsistOf(named("some"), named("same")))
	g.Expect(s.differing(labels.Set{"a": "b"}, nil)).To(ConsistOf(named("all"), named("some"), named("same")))
	g.Expect(s.differing(labels.Set{"x": "y"}, labels.Set{"x": "z"})).To(BeEmpty())
	s.set(named("same"), "", false)
	s.set(named("some"), all, true)
	g.Expect(s.differing(labels.Set{}, labels.Set{"a": "b"})).To(BeEmpty())
	g.Expect(s.byText).To(HaveLen(2), "values that no object has are forgotten")
}

func TestReportedFaultsAreNotReportedAgain(t *testing.T) {
	g, reported := NewWithT(t), &Reported{}
	g.Expect(reported.news(named("s"), "R", []string{"a"}, true)).To(Equal([]string{"a"}))
	g.Expect(reported.news(named("s"), "R", []string{"a"}, true)).To(BeEmpty())
	g.Expect(reported.news(named("s"), "R", []string{"b"}, false)).To(Equal([]string{"b"}))
	g.Expect(reported.news(named("s"), "R", []string{"a", "b"}, true)).To(BeEmpty())
	g.Expect(reported.services("R")).To(Equal(1))
	g.Expect(reported.news(named("s"), "R", nil, true)).To(BeEmpty())
	g.Expect(reported.services("R")).To(BeZero())
	g.Expect(reported.news(named("s"), "R", []string{"a"}, true)).To(Equal([]string{"a"}))
}

func TestTheCacheKeepsOnlyWhatCounts(t *testing.T) {
	g := NewWithT(t)
	service := &corev1.Service{
		ObjectMeta: metav1.ObjectMeta{
			Namespace: "ns", Name: "s", UID: "1", ResourceVersion: "2", Labels: map[string]string{"a": "b"},
			ManagedFields: []metav1.ManagedFieldsEntry{{Manager: "m"}},
			Annotations:   map[string]string{"other": "x", "networking.resources.gardener.cloud/from-world-to-ports": "[]"},
		},
		Spec: corev1.ServiceSpec{
			Selector: map[string]string{"foo": "bar"}, ClusterIP: "10.0.0.1",
			Ports: []corev1.ServicePort{{Name: "n", Port: 1, NodePort: 30000}},
		},
		Status: corev1.ServiceStatus{LoadBalancer: corev1.LoadBalancerStatus{Ingress: []corev1.LoadBalancerIngress{{IP: "192.0.2.1"}}}},
	}
	g.Expect(keepOfService(service)).To(BeComparableTo(&corev1.Service{
		ObjectMeta: metav1.ObjectMeta{
			Namespace: "ns", Name: "s", UID: "1", ResourceVersion: "2",
			Annotations: map[string]string{"networking.resources.gardener.cloud/from-world-to-ports": "[]"},
		},
		Spec: corev1.ServiceSpec{Selector: map[string]string{"foo": "bar"}, Ports: []corev1.ServicePort{{Name: "n", Port: 1}}},
	}))

	namespace := &metav1.PartialObjectMetadata{
		ObjectMeta: metav1.ObjectMeta{
			Name: "ns", Labels: map[string]string{"a": "b"}, Annotations: map[string]string{"c": "d"}, Finalizers: []string{"f"},
		},
	}
	g.Expect(keepOfNamespace(namespace)).To(BeComparableTo(&metav1.PartialObjectMetadata{
		ObjectMeta: metav1.ObjectMeta{Name: "ns", Labels: map[string]string{"a": "b"}},
	}))

	// A fingerprint that a user writes into a policy is ignored; one that the controller has computed is not computed again.
	policy := policyCalled("p")
	policy.CreationTimestamp = metav1.Unix(1, 0)
	policy.Annotations = map[string]string{fingerprintKey: "forged", "large": "text"}
	policy.Labels = map[string]string{"networking.resources.gardener.cloud/service-name": "s", "x": "y"}
	kept := keepOfPolicy(policy)
	g.Expect(kept).To(BeComparableTo(&networkingv1.NetworkPolicy{ObjectMeta: metav1.ObjectMeta{
		Namespace: "ns", Name: "p", Labels: map[string]string{"networking.resources.gardener.cloud/service-name": "s"},
		Annotations: map[string]string{fingerprintKey: desired.Fingerprint(policy)},
	}}))
	g.Expect(keepOfPolicy(kept)).To(BeIdenticalTo(kept))
}
