package general

import (
	"net/netip"
	"os"
	"strings"
	"testing"

	. "github.com/onsi/gomega"
	corev1 "k8s.io/api/core/v1"
	discoveryv1 "k8s.io/api/discovery/v1"
	networkingv1 "k8s.io/api/networking/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/yaml"
)

// exampleFacts returns the facts about a cluster with two API servers.
func exampleFacts() Facts {
	network := netip.MustParsePrefix
	return Facts{
		APIServer: []Endpoint{
			{Address: netip.MustParseAddr("10.3.0.1"), Ports: []int32{443}},
			{Address: netip.MustParseAddr("192.168.0.6"), Ports: []int32{6443}},
			{Address: netip.MustParseAddr("192.168.0.5"), Ports: []int32{6443}},
			{Address: netip.MustParseAddr("192.168.0.5"), Ports: []int32{6443}},
		},
		Cluster: []netip.Prefix{network("10.1.0.0/16"), network("10.2.0.0/16"), network("10.3.0.0/16")},
		Blocked: []netip.Prefix{network("192.168.7.0/24"), network("203.0.113.0/24")},
	}
}

func names(policies []*networkingv1.NetworkPolicy) []string {
	var all []string
	for _, each := range policies {
		all = append(all, each.Name)
	}
	return all
}

func TestPoliciesAreAsInTheGoldenFile(t *testing.T) {
	g := NewWithT(t)
	var got strings.Builder
	for _, each := range Policies("shop", "red", Full, exampleFacts()) {
		data, err := yaml.Marshal(each)
		g.Expect(err).NotTo(HaveOccurred())
		got.WriteString("---\n" + string(data))
	}
	if os.Getenv("UPDATE_GOLDEN") != "" {
		g.Expect(os.WriteFile("testdata/full.yaml", []byte(got.String()), 0o600)).To(Succeed())
	}
	want, err := os.ReadFile("testdata/full.yaml")
	g.Expect(err).NotTo(HaveOccurred())
	g.Expect(got.String()).To(Equal(string(want)))
}

func TestScopes(t *testing.T) {
	for name, tc := range map[string]struct {
		scope Scope
		want  []string
	}{
		"none":   {scope: None},
		"closed": {scope: Closed, want: []string{"allow-to-runtime-apiserver", "allow-to-dns", "deny-all"}},
		"full": {scope: Full, want: []string{
			"allow-to-runtime-apiserver", "allow-to-dns",
			"allow-to-public-networks", "allow-to-private-networks", "allow-to-blocked-cidrs", "deny-all",
		}},
	} {
		t.Run(name, func(t *testing.T) {
			NewWithT(t).Expect(names(Policies("shop", "", tc.scope, exampleFacts()))).To(Equal(tc.want))
		})
	}
}

// A rule without peers, or without ports, allows all of them.
func TestUnknownDestinationsAreNotAllowed(t *testing.T) {
	g := NewWithT(t)
	everywhere := []netip.Prefix{netip.MustParsePrefix("0.0.0.0/0"), netip.MustParsePrefix("::/0")}
	withoutPorts := []Endpoint{{Address: netip.MustParseAddr("10.3.0.1")}}
	for _, each := range Policies("shop", "", Full, Facts{APIServer: withoutPorts, Blocked: everywhere}) {
		switch each.Name {
		case "allow-to-dns":
			g.Expect(each.Spec.Egress).To(HaveLen(1))
		case "allow-to-blocked-cidrs":
			g.Expect(each.Spec.Egress).To(HaveLen(1))
			g.Expect(each.Spec.Egress[0].To).To(HaveLen(2))
		default:
			g.Expect(each.Spec.Egress).To(BeEmpty(), each.Name)
		}
	}
}

func TestEndpointsOfTheAPIServer(t *testing.T) {
	g := NewWithT(t)
	address := netip.MustParseAddr
	all := []discoveryv1.EndpointSlice{
		{
			Ports:     []discoveryv1.EndpointPort{{Port: new(int32(6443))}, {}},
			Endpoints: []discoveryv1.Endpoint{{Addresses: []string{"192.168.0.5"}}, {Addresses: []string{"api.example.com"}}},
		},
		{Endpoints: []discoveryv1.Endpoint{{Addresses: []string{"192.168.0.7"}}}}, // without ports
	}
	g.Expect(endpointsOf(all)).To(Equal([]Endpoint{{Address: address("192.168.0.5"), Ports: []int32{6443}}}))

	services := []corev1.Service{
		{ObjectMeta: metav1.ObjectMeta{Name: "kubernetes"}, Spec: corev1.ServiceSpec{
			ClusterIPs: []string{"10.3.0.1", "fd00::1"}, Ports: []corev1.ServicePort{{Port: 443}},
		}},
		{ObjectMeta: metav1.ObjectMeta{Name: "web"}, Spec: corev1.ServiceSpec{
			ClusterIPs: []string{"10.3.0.2"}, Ports: []corev1.ServicePort{{Port: 80}},
		}},
	}
	g.Expect(addressesOf(services)).To(Equal([]Endpoint{
		{Address: address("10.3.0.1"), Ports: []int32{443}}, {Address: address("fd00::1"), Ports: []int32{443}},
	}))
}

func TestNetworksAreSorted(t *testing.T) {
	g := NewWithT(t)
	networks, err := Networks([]string{"192.168.0.0/16", "10.1.2.3/24", "10.1.2.0/24"})
	g.Expect(err).NotTo(HaveOccurred())
	g.Expect(networks).To(Equal([]netip.Prefix{netip.MustParsePrefix("10.1.2.0/24"), netip.MustParsePrefix("192.168.0.0/16")}))
	_, err = Networks([]string{"ten"})
	g.Expect(err).To(MatchError(ContainSubstring(`parse network "ten"`)))
}

// steps returns the changes of a plan as texts.
func steps(changes []change) []string {
	var all []string
	for _, each := range changes {
		all = append(all, each.action+" "+each.name())
	}
	return all
}

func TestPlan(t *testing.T) {
	facts := exampleFacts()
	have := func(scope Scope, changes ...func(*networkingv1.NetworkPolicy)) []networkingv1.NetworkPolicy {
		var all []networkingv1.NetworkPolicy
		for _, each := range Policies("shop", "", scope, facts) {
			each.UID = types.UID(each.Name)
			for _, change := range changes {
				change(each)
			}
			all = append(all, *each)
		}
		return all
	}
	for name, tc := range map[string]struct {
		scope Scope
		have  []networkingv1.NetworkPolicy
		want  []string
	}{
		"everything is there": {scope: Closed, have: have(Closed)},
		"the namespace is closed last": {scope: Closed, want: []string{
			"create allow-to-runtime-apiserver", "create allow-to-dns", "create deny-all",
		}},
		"the namespace is opened first": {scope: None, have: have(Closed), want: []string{
			"delete deny-all", "delete allow-to-dns", "delete allow-to-runtime-apiserver",
		}},
		"a narrower scope": {scope: Closed, have: have(Full), want: []string{
			"delete allow-to-blocked-cidrs", "delete allow-to-private-networks", "delete allow-to-public-networks",
		}},
		"another spec": {
			scope: Closed,
			have: have(Closed, func(p *networkingv1.NetworkPolicy) {
				if p.Name == "allow-to-dns" {
					p.Spec.Egress = nil
				}
			}),
			want: []string{"update allow-to-dns"},
		},
		"another wording of descriptions": {
			scope: Closed,
			have: have(Closed, func(p *networkingv1.NetworkPolicy) {
				p.Annotations = map[string]string{"gardener.cloud/description": "other words"}
			}),
		},
		"no description": {
			scope: Closed,
			have: have(Closed, func(p *networkingv1.NetworkPolicy) {
				if p.Name == "deny-all" {
					p.Annotations = nil
				}
			}),
			want: []string{"update deny-all"},
		},
	} {
		t.Run(name, func(t *testing.T) {
			NewWithT(t).Expect(steps(plan(Policies("shop", "", tc.scope, facts), tc.have))).To(Equal(tc.want))
		})
	}
}
