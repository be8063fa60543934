package general

import (
	"net/netip"
	"slices"

	corev1 "k8s.io/api/core/v1"
	networkingv1 "k8s.io/api/networking/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	resourcesv1alpha1 "github.com/espalier-dev/espalier/api/resources/v1alpha1"
	"github.com/espalier-dev/espalier/internal/egress"
)

// Scope says which policies a namespace gets.
type Scope int

// Scopes of a namespace.
const (
	// None: no policies.
	None Scope = iota
	// Closed: deny-all, and connections to DNS and to the API server.
	Closed
	// Full: the policies of Closed, and policies that allow connections to public, private and blocked networks.
	Full
)

// denyAll is the name of the policy that closes a namespace.
const denyAll = "deny-all"

// Facts are the facts about a cluster from which the policies follow.
type Facts struct {
	// APIServer are the endpoints of the API server and the addresses of its Service.
	APIServer []Endpoint
	// Cluster are the networks of nodes, Pods and Services; Blocked are the networks to which only Pods with the label for blocked networks
	// may connect.
	Cluster, Blocked []netip.Prefix
}

// Endpoint is an address of the API server with its TCP ports.
type Endpoint struct {
	Address netip.Addr
	Ports   []int32
}

// Policies returns the policies of a namespace. They must be created in this order: the last one denies all connections.
func Policies(namespace, instance string, scope Scope, facts Facts) []*networkingv1.NetworkPolicy {
	if scope == None {
		return nil
	}
	of := func(target, description string, rules []networkingv1.NetworkPolicyEgressRule) *networkingv1.NetworkPolicy {
		return policy(namespace, "allow-"+target, instance,
			"Allows egress traffic to "+description+" for pods with the label networking.gardener.cloud/"+target+".",
			networkingv1.NetworkPolicySpec{
				PodSelector: metav1.LabelSelector{MatchLabels: map[string]string{
					"networking.gardener.cloud/" + target: resourcesv1alpha1.NetworkingClientAllowed,
				}},
				PolicyTypes: []networkingv1.PolicyType{networkingv1.PolicyTypeEgress}, Egress: rules,
			})
	}
	all := []*networkingv1.NetworkPolicy{
		of("to-runtime-apiserver", "the API server of this cluster", toEndpoints(facts.APIServer)),
		// At any address, because caches on nodes, which have link-local addresses, answer too.
		of("to-dns", "ports 53 and 8053", egress.ToPorts([]corev1.Protocol{corev1.ProtocolTCP, corev1.ProtocolUDP}, 53, 8053)),
	}
	if scope == Full {
		notPublic := egress.NotPublic()
		all = append(all,
			of("to-public-networks", "public networks without blocked ones",
				egress.ToNetworks(egress.Everywhere(), slices.Concat(notPublic, egress.LinkLocal(), facts.Blocked))),
			of("to-private-networks", "private networks, without those of the cluster and blocked ones",
				egress.ToNetworks(notPublic, slices.Concat(facts.Cluster, facts.Blocked))),
			of("to-blocked-cidrs", "blocked networks", egress.ToNetworks(facts.Blocked, nil)),
		)
	}
	const description = "Denies all traffic from and to pods of this namespace that no other policy allows."
	return append(all, policy(namespace, denyAll, instance, description, networkingv1.NetworkPolicySpec{
		PolicyTypes: []networkingv1.PolicyType{networkingv1.PolicyTypeIngress, networkingv1.PolicyTypeEgress},
	}))
}

func policy(namespace, name, instance, description string, spec networkingv1.NetworkPolicySpec) *networkingv1.NetworkPolicy {
	p := &networkingv1.NetworkPolicy{
		ObjectMeta: metav1.ObjectMeta{
			Namespace: namespace, Name: name,
			Labels:      map[string]string{resourcesv1alpha1.NetworkingGeneral: "true"},
			Annotations: map[string]string{resourcesv1alpha1.GardenerDescription: description},
		},
		Spec: spec,
	}
	if instance != "" {
		p.Labels[resourcesv1alpha1.NetworkingInstance] = instance
	}
	return p
}

// toEndpoints allows the endpoints, one rule for each list of ports.
func toEndpoints(endpoints []Endpoint) []networkingv1.NetworkPolicyEgressRule {
	endpoints = slices.Clone(endpoints)
	slices.SortFunc(endpoints, func(a, b Endpoint) int {
		if byPorts := slices.Compare(a.Ports, b.Ports); byPorts != 0 {
			return byPorts
		}
		return a.Address.Compare(b.Address)
	})
	var rules []networkingv1.NetworkPolicyEgressRule
	for i, each := range endpoints {
		if len(each.Ports) == 0 { // a rule without ports allows all of them
			continue
		}
		if i == 0 || !slices.Equal(endpoints[i-1].Ports, each.Ports) {
			rules = append(rules, networkingv1.NetworkPolicyEgressRule{Ports: egress.Ports([]corev1.Protocol{corev1.ProtocolTCP}, each.Ports...)})
		}
		last := &rules[len(rules)-1]
		network := netip.PrefixFrom(each.Address, each.Address.BitLen()).String()
		if n := len(last.To); n == 0 || last.To[n-1].IPBlock.CIDR != network {
			last.To = append(last.To, networkingv1.NetworkPolicyPeer{IPBlock: &networkingv1.IPBlock{CIDR: network}})
		}
	}
	return rules
}
