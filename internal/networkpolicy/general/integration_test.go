package general_test

import (
	"slices"
	"testing"
	"time"

	. "github.com/onsi/gomega"
	corev1 "k8s.io/api/core/v1"
	networkingv1 "k8s.io/api/networking/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/controller-runtime/pkg/client"

	operatorv1alpha1 "github.com/espalier-dev/espalier/api/operator/v1alpha1"
	"github.com/espalier-dev/espalier/internal/config"
	"github.com/espalier-dev/espalier/internal/networkpolicy/general"
	"github.com/espalier-dev/espalier/test/binary"
)

func TestNamespacesGetThePoliciesOfTheirScope(t *testing.T) {
	s := newScene(t, false, func(c *config.GeneralNetworkPolicies) {
		c.Networks = config.ClusterNetworks{Cluster: []string{"10.1.0.0/16"}, Blocked: []string{"192.168.7.0/24"}}
	})
	closed, none := s.namespace("closed", "closed"), s.namespace("none", "none")
	s.awaits(closed, inClosed()...)
	s.Requests.Reset()
	full := s.namespace("full", "full")
	s.awaits(full, inFull()...)
	s.Expect(s.writes()).To(Equal(slices.Repeat([]string{"POST networkpolicies"}, len(inFull()))))

	service := &corev1.Service{}
	s.Expect(s.Target.Get(s.Ctx, client.ObjectKey{Namespace: "default", Name: "kubernetes"}, service)).To(Succeed())
	ofService := service.Spec.ClusterIP + "/32:443"
	s.Expect(destinations(s.policy(full, "allow-to-runtime-apiserver"))).To(ConsistOf("192.0.2.1/32:6443", ofService))
	s.Expect(destinations(s.policy(full, "allow-to-blocked-cidrs"))).To(Equal([]string{"192.168.7.0/24"}))
	s.Expect(destinations(s.policy(full, "allow-to-private-networks"))).To(ContainElements(
		"10.0.0.0/8 without 10.1.0.0/16", "192.168.0.0/16 without 192.168.7.0/24"))
	s.Expect(s.policy(full, "deny-all").Spec).To(Equal(networkingv1.NetworkPolicySpec{
		PolicyTypes: []networkingv1.PolicyType{networkingv1.PolicyTypeIngress, networkingv1.PolicyTypeEgress},
	}))

	// A second reconciliation writes nothing.
	s.Restart(s.Requests.Reset)
	s.AwaitRest()
	s.Requests.Reset()
	s.Restart(func() {})
	s.namespace("later", "closed")
	s.awaits(s.Namespace+"-later", inClosed()...)
	s.Expect(s.writes()).To(HaveLen(3)) // in the new namespace
	s.Expect(s.names(none)).To(BeEmpty())

	s.setScope(full, "closed")
	s.awaits(full, inClosed()...)
	s.setScope(full, "none")
	s.awaits(full)
	s.setScope(closed, "full")
	s.awaits(closed, inFull()...)
}

func TestPoliciesFollowTheEndpointsOfTheAPIServer(t *testing.T) {
	s := newScene(t, false, nil)
	name := s.namespace("closed", "closed")
	s.awaits(name, inClosed()...)
	s.serve("192.0.2.2", "192.0.2.3")
	s.awaitsDestinations(name, "allow-to-runtime-apiserver", And(
		ContainElements("192.0.2.2/32:6443", "192.0.2.3/32:6443"), Not(ContainElement("192.0.2.1/32:6443"))))

	// Without endpoints, the last ones stay, and no namespace is closed.
	s.serve()
	later := s.namespace("later", "closed")
	s.AwaitRest()
	s.Expect(destinations(s.policy(name, "allow-to-runtime-apiserver"))).To(ContainElement("192.0.2.2/32:6443"))
	s.Expect(s.names(later)).To(BeEmpty())
	s.serve("192.0.2.4")
	s.awaits(later, inClosed()...)
	s.awaitsDestinations(name, "allow-to-runtime-apiserver", ContainElement("192.0.2.4/32:6443"))
}

func TestPoliciesFollowTheNetworksOfTheGarden(t *testing.T) {
	s := newScene(t, true, func(c *config.GeneralNetworkPolicies) { c.NetworksOfGarden = true })
	_, err := binary.Install(s.Ctx, s.Target, "deploy/garden-operator/crds/operator.gardener.cloud_gardens.yaml")
	s.Expect(err).NotTo(HaveOccurred())
	s.Eventually(func() error { return s.Target.List(s.Ctx, &operatorv1alpha1.GardenList{}) }).WithTimeout(binary.Patience).Should(Succeed())
	s.Start()
	name := s.namespace("full", "full")
	s.AwaitRest()
	s.Expect(s.names(name)).To(BeEmpty(), "without a Garden")

	garden := newGarden(s.Namespace)
	s.Expect(s.Target.Create(s.Ctx, garden)).To(Succeed())
	s.awaits(name, inFull()...)
	private := s.policy(name, "allow-to-private-networks")
	s.Expect(destinations(private)).To(ContainElement("10.0.0.0/8 without 10.2.0.0/16, 10.3.0.0/16"))
	s.Expect(destinations(s.policy(name, "allow-to-blocked-cidrs"))).To(BeEmpty())

	s.change(garden, func(client.Object) { garden.Spec.RuntimeCluster.Networking.BlockCIDRs = []string{"192.168.7.0/24"} })
	s.awaitsDestinations(name, "allow-to-blocked-cidrs", Equal([]string{"192.168.7.0/24"}))
	s.awaitsDestinations(name, "allow-to-private-networks", ContainElement("192.168.0.0/16 without 192.168.7.0/24"))

	s.Expect(s.Target.Delete(s.Ctx, garden)).To(Succeed())
	s.AwaitRest()
	s.Expect(s.names(name)).To(ConsistOf(inFull()), "after the Garden")
}

func newGarden(name string) *operatorv1alpha1.Garden {
	garden := &operatorv1alpha1.Garden{ObjectMeta: metav1.ObjectMeta{Name: name}}
	runtime, cluster := &garden.Spec.RuntimeCluster, &garden.Spec.VirtualCluster
	runtime.Ingress = operatorv1alpha1.Ingress{
		Domains: []operatorv1alpha1.Domain{{Name: "ingress.example.com"}}, Controller: operatorv1alpha1.IngressController{Kind: "nginx"},
	}
	runtime.Networking = operatorv1alpha1.RuntimeNetworking{Pods: []string{"10.2.0.0/16"}, Services: []string{"10.3.0.0/16"}}
	cluster.DNS.Domains = []operatorv1alpha1.Domain{{Name: "example.com"}}
	cluster.Gardener.ClusterIdentity = "garden"
	cluster.Kubernetes.Version = "1.35.0"
	cluster.Maintenance.TimeWindow = operatorv1alpha1.MaintenanceTimeWindow{Begin: "220000+0100", End: "230000+0100"}
	cluster.Networking.Services = []string{"100.64.0.0/13"}
	return garden
}

func TestChangesOfOtherClientsAreReverted(t *testing.T) {
	s := newScene(t, false, nil)
	name := s.namespace("closed", "closed")
	s.awaits(name, inClosed()...)
	dns := s.policy(name, "allow-to-dns")
	want := dns.DeepCopy()
	s.change(dns, func(client.Object) {
		dns.Spec.Egress, dns.Labels["team"] = nil, "blue"
		delete(dns.Annotations, "gardener.cloud/description")
	})
	s.Eventually(func(g Gomega) {
		got := s.policy(name, "allow-to-dns")
		g.Expect(got.Spec).To(Equal(want.Spec))
		g.Expect(got.Annotations).To(Equal(want.Annotations))
		g.Expect(got.Labels).To(HaveKeyWithValue("team", "blue"))
	}).WithTimeout(binary.Patience).Should(Succeed())
	s.Expect(s.Target.Delete(s.Ctx, s.policy(name, "deny-all"))).To(Succeed())
	s.awaits(name, inClosed()...)
}

func TestPoliciesOfOtherClientsStay(t *testing.T) {
	s := newScene(t, false, nil)
	name := s.namespace("closed", "none")
	foreign := &networkingv1.NetworkPolicy{
		ObjectMeta: metav1.ObjectMeta{Namespace: name, Name: "allow-to-dns"},
		Spec:       networkingv1.NetworkPolicySpec{PolicyTypes: []networkingv1.PolicyType{networkingv1.PolicyTypeIngress}},
	}
	s.Expect(s.Target.Create(s.Ctx, foreign.DeepCopy())).To(Succeed())
	s.setScope(name, "closed")
	s.Eventually(func() []string { return s.Events(s.Target, "Namespace", name) }).WithTimeout(binary.Patience).Should(ContainElement(And(
		HavePrefix("Warning "+general.ReasonNameTaken+": NetworkPolicy "+name+"/allow-to-dns exists and belongs to another client"),
		ContainSubstring("the namespace is not closed"),
	)))
	s.awaits(name, "allow-to-runtime-apiserver", "allow-to-dns")
	s.Expect(s.policy(name, "allow-to-dns").Spec).To(Equal(foreign.Spec))

	s.setScope(name, "none")
	s.awaits(name, "allow-to-dns")
	s.Expect(s.Target.Delete(s.Ctx, foreign)).To(Succeed())
	s.setScope(name, "closed")
	s.awaits(name, inClosed()...)
}

// Gardener's operator, and gardenlet in a Seed that gets a Garden, have made policies with these names.
func TestPoliciesOfGardenerAreTakenOver(t *testing.T) {
	s := newScene(t, false, nil)
	name := s.namespace("closed", "none")
	for policy, pods := range map[string]map[string]string{
		"allow-to-dns": {"networking.gardener.cloud/to-dns": "allowed"}, "deny-all": nil,
	} {
		theirs := &networkingv1.NetworkPolicy{
			ObjectMeta: metav1.ObjectMeta{
				Namespace: name, Name: policy, Annotations: map[string]string{"gardener.cloud/description": "Gardener's words."},
			},
			Spec: networkingv1.NetworkPolicySpec{
				PodSelector: metav1.LabelSelector{MatchLabels: pods}, PolicyTypes: []networkingv1.PolicyType{"Egress"},
			},
		}
		if pods == nil {
			theirs.Spec.PolicyTypes = []networkingv1.PolicyType{"Ingress", "Egress"}
		}
		s.Expect(s.Target.Create(s.Ctx, theirs, client.FieldOwner("gardener-operator"))).To(Succeed())
	}
	s.setScope(name, "closed")
	s.awaits(name, inClosed()...)
	s.Eventually(func(g Gomega) {
		for _, each := range inClosed() {
			g.Expect(s.policy(name, each).Labels).To(HaveKeyWithValue("espalier.dev/general-network-policy", "true"), each)
		}
		g.Expect(s.policy(name, "allow-to-dns").Spec.Egress).To(HaveLen(1))
	}).WithTimeout(binary.Patience).Should(Succeed())
}

func TestInstancesKeepTheirPolicies(t *testing.T) {
	s := newScene(t, true, nil)
	s.Config.Espalier.NetworkPolicy.Instance = "red"
	s.Start()
	name := s.namespace("closed", "closed")
	s.awaits(name, inClosed()...)
	s.Expect(s.policy(name, "deny-all").Labels).To(HaveKeyWithValue("espalier.dev/network-policies-instance", "red"))
	s.Stop()
	s.Config.Espalier.NetworkPolicy.Instance = "blue"
	s.Start()
	s.Eventually(func() []string { return s.Events(s.Target, "Namespace", name) }).WithTimeout(binary.Patience).Should(ContainElement(
		ContainSubstring(`belongs to the netpol-controller of instance "red"`)))
	s.setScope(name, "none")
	s.AwaitRest()
	s.Expect(s.names(name)).To(ConsistOf(inClosed()))
}

func TestAnObservingControllerWritesNothing(t *testing.T) {
	s := newScene(t, true, nil)
	s.Config.Espalier.NetworkPolicy.ObserveOnly = ptr.To(true)
	s.Start()
	name := s.namespace("closed", "closed")
	s.Eventually(func() []string { return s.Events(s.Target, "Namespace", name) }).WithTimeout(binary.Patience).Should(ContainElement(
		"Normal " + general.ReasonDifference + ": Would create NetworkPolicy " + name + "/allow-to-dns, but the controller only observes; " +
			"Would create NetworkPolicy " + name + "/allow-to-runtime-apiserver, but the controller only observes; " +
			"Would create NetworkPolicy " + name + "/deny-all, but the controller only observes"))
	s.Expect(s.names(name)).To(BeEmpty())
	s.Expect(s.writes()).To(BeEmpty())
}

// Whenever the process stops, a closed namespace has the policies that allow connections, and the next process completes the work.
func TestCrashPoints(t *testing.T) {
	binary.Servers(t)
	cuts := binary.EveryCut(t, 1, func(t *testing.T, at binary.Cut) bool {
		t.Helper()
		s := newScene(t, false, nil)
		name := s.namespace("closed", "none")
		s.AwaitRest()
		s.Requests.CutOff(at)
		reaches := func(names ...string) {
			t.Helper()
			s.Eventually(func(g Gomega) {
				found := s.names(name)
				if len(names) > 0 {
					s.Expect(found).To(Or(Not(ContainElement("deny-all")), ConsistOf(names)))
				}
				if !s.Requests.IsCutOff() {
					g.Expect(found).To(ConsistOf(names))
				}
			}).WithTimeout(binary.Patience).WithPolling(time.Millisecond).Should(Succeed())
		}
		s.setScope(name, "closed")
		reaches(inClosed()...)
		s.setScope(name, "none")
		reaches()
		happened := false
		s.Restart(func() { happened = s.Requests.Connect() })
		s.awaits(name)
		s.setScope(name, "closed")
		s.awaits(name, inClosed()...)
		return happened
	})
	NewWithT(t).Expect(cuts).To(BeNumerically(">=", 6))
}
