package controller_test

import (
	"errors"
	"net/http"
	"path"
	"slices"
	"sync"
	"testing"
	"time"

	. "github.com/onsi/gomega"
	networkingv1 "k8s.io/api/networking/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	clocktesting "k8s.io/utils/clock/testing"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/espalier-dev/espalier/test/binary"
)

func TestRepairsPauseWhenAnotherClientKeepsChangingAPolicy(t *testing.T) {
	t.Parallel()
	now := clocktesting.NewFakeClock(time.Now()) // time passes only when the test says so
	s := newScene(t, setting{clock: now})
	created := func(want float64) { // a write is counted after it is made
		s.T.Helper()
		s.awaits(own())
		s.Eventually(func() float64 { return s.byAction("espalier_networkpolicy_writes_total")["create"] }).WithTimeout(binary.Patience).
			Should(Equal(want))
	}
	s.service(nil)
	created(4)
	for i := range 3 {
		s.Expect(s.Target.Delete(s.Ctx, foreign(s.A, "egress-to-s-tcp-5678", nil))).To(Succeed())
		created(float64(5 + i))
		s.settled()
	}
	s.Expect(s.events("s")).To(BeEmpty())
	s.Requests.Reset()
	s.Expect(s.Target.Delete(s.Ctx, foreign(s.A, "egress-to-s-tcp-5678", nil))).To(Succeed())
	s.awaitsEvent("s", "Warning PolicyRepairPaused: Repairs of NetworkPolicy a/egress-to-s-tcp-5678 pause for 10s, since another client "+
		"changes or deletes it again and again: find this client in its managedFields or the audit log, and stop it")
	s.Expect(s.Requests.Writes()).To(BeEmpty())
	s.Expect(s.Target.Delete(s.Ctx, foreign(s.A, "ingress-to-s-tcp-5678", nil))).To(Succeed())
	s.awaits(own()[1:]) // others are repaired in the meantime
	now.Step(10 * time.Second)
	s.awaits(own()) // and this one after the pause
}

// Earlier versions wrote policies under the name of managedresource-controller.
func TestPoliciesAreWrittenUnderTheNameOfTheBinary(t *testing.T) {
	t.Parallel()
	s := newScene(t, setting{})
	s.service(nil)
	s.awaits(own())
	key := types.NamespacedName{Namespace: s.A, Name: "ingress-to-s-tcp-5678"}
	policy := &networkingv1.NetworkPolicy{}
	s.Expect(s.Target.Get(s.Ctx, key, policy)).To(Succeed())
	want := policy.Spec.DeepCopy()
	s.Expect(policy.ManagedFields).To(HaveLen(1))
	s.Expect(policy.ManagedFields[0].Manager).To(Equal("espalier-netpol-controller"))

	policy.Spec.Ingress = nil
	s.Expect(s.Target.Update(s.Ctx, policy, client.FieldOwner("espalier"))).To(Succeed())
	s.Eventually(func() networkingv1.NetworkPolicySpec { return s.policy(s.A, key.Name).Spec }).WithTimeout(binary.Patience).
		Should(BeComparableTo(*want))
	s.Requests.Reset()
	s.Expect(s.settled()).To(BeEmpty(), "nothing is written because of names in managedFields")
}

// Another controller of the same policies uses other descriptions.
func TestADescriptionInOtherWordsIsLeftAlone(t *testing.T) {
	t.Parallel()
	s := newScene(t, setting{})
	service := s.service(nil)
	s.awaits(own())
	policy := s.policy(s.A, "ingress-to-s-tcp-5678")
	want := policy.Annotations[description]
	s.settled()
	s.Requests.Reset()
	s.change(policy, func() { policy.Annotations[description] = "in other words" })
	s.Expect(s.settled()).To(BeEmpty())
	s.annotate(service, fromWorld, "[]") // all policies are compared
	s.awaits(own(), []string{"a/ingress-to-s-from-world"})
	s.Expect(s.policy(s.A, policy.Name).Annotations[description]).To(Equal("in other words"))
	s.change(policy, func() { policy.Annotations[description] = "" })
	s.Eventually(func() string { return s.policy(s.A, policy.Name).Annotations[description] }).WithTimeout(binary.Patience).Should(Equal(want))
}

// Another client writes to each policy just before the controller does, without changing the controller's fields.
func TestConflictsAreRetriedSilently(t *testing.T) {
	t.Parallel()
	s := newScene(t, setting{})
	service := s.service(nil)
	s.awaits(own())
	var mu sync.Mutex
	seen := map[string]bool{}
	touch := func(request *http.Request) error {
		name := path.Base(request.URL.Path)
		mu.Lock()
		defer mu.Unlock()
		if !slices.Contains([]string{http.MethodPatch, http.MethodDelete}, request.Method) ||
			path.Base(path.Dir(request.URL.Path)) != "networkpolicies" || seen[request.Method+name] {
			return nil
		}
		seen[request.Method+name] = true
		policy := &networkingv1.NetworkPolicy{ObjectMeta: metav1.ObjectMeta{Namespace: s.A, Name: name}}
		patch := `{"metadata":{"annotations":{"foreign":"` + request.Method + `"}}}`
		return s.Target.Patch(s.Ctx, policy, client.RawPatch(types.MergePatchType, []byte(patch)))
	}
	s.Requests.SetHook(touch)
	s.change(service, func() { service.Spec.Selector = map[string]string{"foo": "baz"} })
	s.Eventually(func() []string {
		var selected []string
		for _, name := range []string{"ingress-to-s-tcp-5678", "ingress-to-s-udp-testport"} {
			selected = append(selected, s.policy(s.A, name).Spec.PodSelector.MatchLabels["foo"])
		}
		return selected
	}).WithTimeout(binary.Patience).Should(Equal([]string{"baz", "baz"}))
	s.change(service, func() { service.Spec.Selector = nil })
	s.awaits()
	s.settled()
	mu.Lock()
	defer mu.Unlock()
	s.Expect(seen).To(HaveLen(8))
	s.Expect(s.events("s")).To(BeEmpty())
}

// A rejection by the API server is reported once, however often the request is retried.
func TestFailuresAreReportedOnce(t *testing.T) {
	t.Parallel()
	s := newScene(t, setting{stopped: true})
	s.Requests.SetHook(func(request *http.Request) error {
		if request.Method == http.MethodPost && path.Base(request.URL.Path) == "networkpolicies" {
			return errors.New("refused")
		}
		return nil
	})
	s.service(nil)
	s.Start()
	s.awaitsEvent("s",
		ContainSubstring("Warning PolicyChangeFailed: NetworkPolicies could not be changed and are tried again: create NetworkPolicy "+
			"a/egress-to-s-tcp-5678: "))
	s.Consistently(func() []string { return s.events("s") }).WithTimeout(time.Second).Should(HaveLen(1))
	s.Requests.SetHook(nil)
	s.awaits(own())
}

func TestObserveOnlyLooksAgainAtNamesThatAnotherServiceHas(t *testing.T) {
	t.Parallel()
	s := newScene(t, setting{observeOnly: true, stopped: true})
	theirs := foreign(s.A, "ingress-to-s-tcp-5678", ownedBy("elsewhere", "t"))
	s.create(theirs)
	s.service(nil)
	s.Start()
	s.Eventually(s.pending).WithTimeout(binary.Patience).Should(Equal(map[string]float64{"create": 3, "update": 0, "delete": 0}))
	s.Expect(s.Target.Delete(s.Ctx, theirs)).To(Succeed())
	s.Eventually(s.pending).WithTimeout(binary.Patience).Should(Equal(map[string]float64{"create": 4, "update": 0, "delete": 0}))
}

func TestInstancesLeavePoliciesOfEachOtherAlone(t *testing.T) {
	t.Parallel()
	s := newScene(t, setting{stopped: true})
	handle := func(instance string, handled bool) {
		t.Helper()
		s.Stop()
		s.Config.Espalier.NetworkPolicy.Instance = instance
		selected := map[bool]string{true: s.A, false: "none"}[handled]
		s.Config.Controllers.NetworkPolicy.NamespaceSelectors = []metav1.LabelSelector{{MatchLabels: map[string]string{handledBy: selected}}}
		s.Start()
	}
	s.service(nil)
	handle("one", true)
	s.awaits(own())
	s.Expect(s.policy(s.A, "egress-to-s-tcp-5678").Labels).To(HaveKeyWithValue("espalier.dev/network-policies-instance", "one"))
	for _, other := range []string{"", "two"} {
		handle(other, false)
		s.settled()
		s.awaits(own())
		handle(other, true)
		s.awaitsEvent("s", HavePrefix(`Warning PolicyNameTaken: NetworkPolicy a/egress-to-s-tcp-5678 exists and belongs to the `+
			`netpol-controller of instance "one", for which the namespace of the Service must be left out here; it is left alone`))
		s.settled()
		s.Expect(s.policy(s.A, "egress-to-s-tcp-5678").Labels).To(HaveKeyWithValue("espalier.dev/network-policies-instance", "one"))
	}
	handle("one", false)
	s.awaits()
	handle("", true)
	s.awaits(own())
	handle("one", true) // it takes over policies of an instance without a name
	s.Eventually(func(g Gomega) {
		policies := &networkingv1.NetworkPolicyList{}
		g.Expect(s.Target.List(s.Ctx, policies, client.InNamespace(s.A))).To(Succeed())
		g.Expect(policies.Items).To(HaveLen(len(own())))
		for _, each := range policies.Items {
			g.Expect(each.Labels).To(HaveKeyWithValue("espalier.dev/network-policies-instance", "one"), each.Name)
		}
	}).WithTimeout(binary.Patience).Should(Succeed())
	handle("one", false)
	s.awaits()
}
