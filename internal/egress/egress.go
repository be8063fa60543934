// Package egress returns rules of NetworkPolicies for connections that do not go to Pods.
package egress

import (
	"net/netip"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
	networkingv1 "k8s.io/api/networking/v1"
	"k8s.io/apimachinery/pkg/util/intstr"
)

// Everywhere returns the networks of all addresses.
func Everywhere() []netip.Prefix { return prefixes("0.0.0.0/0", "::/0") }

// NotPublic returns these networks that are not public: the private networks (RFC 1918), the network for carrier-grade NAT (RFC 6598), and
// the unique local networks (RFC 4193). It does not return link-local networks: see LinkLocal.
func NotPublic() []netip.Prefix {
	return prefixes("10.0.0.0/8", "100.64.0.0/10", "172.16.0.0/12", "192.168.0.0/16", "fc00::/7")
}

// LinkLocal returns the link-local networks (RFC 3927, RFC 4291). They count neither as public nor as private, because clouds serve the
// credentials of the node there.
func LinkLocal() []netip.Prefix { return prefixes("169.254.0.0/16", "fe80::/10") }

func prefixes(texts ...string) []netip.Prefix {
	all := make([]netip.Prefix, 0, len(texts))
	for _, text := range texts {
		all = append(all, netip.MustParsePrefix(text))
	}
	return all
}

// ToPorts allows ports at any address. Without ports it allows nothing.
func ToPorts(protocols []corev1.Protocol, ports ...int32) []networkingv1.NetworkPolicyEgressRule {
	all := Ports(protocols, ports...)
	if len(all) == 0 { // a rule without ports allows all of them
		return nil
	}
	return []networkingv1.NetworkPolicyEgressRule{{Ports: all}}
}

// Ports returns ports of policies, with each of the protocols.
func Ports(protocols []corev1.Protocol, ports ...int32) []networkingv1.NetworkPolicyPort {
	all := make([]networkingv1.NetworkPolicyPort, 0, len(ports)*len(protocols))
	for _, port := range ports {
		for _, protocol := range protocols {
			all = append(all, networkingv1.NetworkPolicyPort{Protocol: new(protocol), Port: new(intstr.FromInt32(port))})
		}
	}
	return all
}

// ToNetworks allows networks without others. If nothing is left, it allows nothing.
func ToNetworks(networks, without []netip.Prefix) []networkingv1.NetworkPolicyEgressRule {
	var to []networkingv1.NetworkPolicyPeer
	for _, each := range networks {
		if slices.ContainsFunc(without, func(other netip.Prefix) bool { return includes(other, each) }) {
			continue
		}
		block := &networkingv1.IPBlock{CIDR: each.String()}
		for _, other := range without {
			if includes(each, other) {
				block.Except = append(block.Except, other.Masked().String())
			}
		}
		slices.SortFunc(block.Except, strings.Compare)
		block.Except = slices.Compact(block.Except)
		to = append(to, networkingv1.NetworkPolicyPeer{IPBlock: block})
	}
	if len(to) == 0 { // a rule without peers allows all of them
		return nil
	}
	return []networkingv1.NetworkPolicyEgressRule{{To: to}}
}

// includes reports whether a network has all addresses of another one.
func includes(network, other netip.Prefix) bool {
	return network.Bits() <= other.Bits() && network.Contains(other.Addr())
}
