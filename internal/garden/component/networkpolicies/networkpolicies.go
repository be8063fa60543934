// Package networkpolicies returns the NetworkPolicies for connections of Pods that do not go to Services, and for the connections of the
// operator. Except for the operator's, each policy selects the Pods of its namespace with the label networking.gardener.cloud/to-<target>:
// allowed. Components in other namespaces than the Garden's have the policies of In among their objects. netpol-controller makes the
// policies for connections to Services.
//
// Kubernetes denies all other connections of a Pod once a policy selects it, so each label that components set needs its policy. The names
// differ from the names of gardenlet's policies, because a gardenlet may run in the same cluster.
package networkpolicies

import (
	"net/netip"
	"slices"
	"strings"

	druidcorev1alpha1 "github.com/gardener/etcd-druid/api/core/v1alpha1"
	corev1 "k8s.io/api/core/v1"
	networkingv1 "k8s.io/api/networking/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/intstr"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/controller-runtime/pkg/client"

	resourcesv1alpha1 "github.com/espalier-dev/espalier/api/resources/v1alpha1"
	"github.com/espalier-dev/espalier/internal/deployable"
	"github.com/espalier-dev/espalier/internal/garden/component/etcd"
	"github.com/espalier-dev/espalier/internal/garden/values"
)

// ManagedResource is the name of the ManagedResource with these objects.
const ManagedResource = "garden-networkpolicies"

const (
	labelPrefix = "networking.gardener.cloud/"
	allowed     = "allowed"
)

// Networks that are not public: private ones (RFC 1918), those for carrier-grade NAT (RFC 6598), and unique local ones (RFC 4193).
var notPublic = prefixes("10.0.0.0/8", "100.64.0.0/10", "172.16.0.0/12", "192.168.0.0/16", "fc00::/7")

// Link-local networks (RFC 3927, RFC 4291). Clouds serve the credentials of the node there, so they are neither public nor private.
var linkLocal = prefixes("169.254.0.0/16", "fe80::/10")

func prefixes(texts ...string) []netip.Prefix {
	all := make([]netip.Prefix, 0, len(texts))
	for _, text := range texts {
		all = append(all, netip.MustParsePrefix(text))
	}
	return all
}

// Objects returns the policies of the namespace of the Garden.
func Objects(v values.Values) []client.Object {
	everywhere, cluster := prefixes("0.0.0.0/0", "::/0"), v.Networks.Cluster
	objects := append(In(v.Namespace, v),
		policy(v.Namespace, "to-public-networks",
			"Allows egress traffic to public networks without blocked ones for pods with the label networking.gardener.cloud/to-public-networks.",
			toNetworks(everywhere, slices.Concat(notPublic, linkLocal, v.Networks.Blocked))),
		policy(v.Namespace, "to-private-networks",
			"Allows egress traffic to private networks, without those of the cluster and blocked ones, for pods with the label "+
				"networking.gardener.cloud/to-private-networks.",
			toNetworks(notPublic, slices.Concat(cluster, v.Networks.Blocked))),
		fromOperator(v.Namespace, "apiserver", "the API server of the virtual cluster",
			map[string]string{"app": "kubernetes", "role": "apiserver"}, 443),
		fromOperator(v.Namespace, "etcd-main", "the sidecar of the main etcd",
			map[string]string{"app": "etcd-statefulset", "role": "main"}, 8080),
	)
	if v.BackupMetadataService {
		objects = append(objects, toMetadataService(v))
	}
	return objects
}

// toMetadataService lets the Pods that read and write backups connect to the metadata service of the cloud: the members of the main etcd,
// and the Pods that compact its backups. etcd-druid gives both the label.
func toMetadataService(v values.Values) client.Object {
	allows := policy(v.Namespace, "etcd-main-to-metadata-service",
		"Allows egress traffic to link-local addresses without blocked ones for pods of the main etcd.",
		toNetworks(linkLocal, v.Networks.Blocked))
	allows.Spec.PodSelector.MatchLabels = map[string]string{druidcorev1alpha1.LabelPartOfKey: etcd.Main.Name()}
	return allows
}

// fromOperator lets the operator connect to a server of the virtual cluster. The operator is in another namespace, which need not have
// policies: with one of netpol-controller there, the operator could connect to nothing else.
func fromOperator(namespace, server, what string, pods map[string]string, port int32) client.Object {
	allows := policy(namespace, "operator-to-virtual-"+server, "Allows ingress traffic from the garden operator to "+what+".", nil)
	allows.Spec = networkingv1.NetworkPolicySpec{
		PodSelector: metav1.LabelSelector{MatchLabels: pods},
		PolicyTypes: []networkingv1.PolicyType{networkingv1.PolicyTypeIngress},
		Ingress: []networkingv1.NetworkPolicyIngressRule{{
			From: []networkingv1.NetworkPolicyPeer{{
				NamespaceSelector: &metav1.LabelSelector{MatchLabels: map[string]string{corev1.LabelMetadataName: deployable.Namespace}},
				PodSelector:       &metav1.LabelSelector{MatchLabels: map[string]string{"app.kubernetes.io/name": "espalier-garden-operator"}},
			}},
			Ports: []networkingv1.NetworkPolicyPort{{Protocol: ptr.To(corev1.ProtocolTCP), Port: ptr.To(intstr.FromInt32(port))}},
		}},
	}
	return allows
}

// In returns the policies for DNS and the API server of the runtime cluster for a namespace that is not the namespace of the Garden.
func In(namespace string, v values.Values) []client.Object {
	return []client.Object{
		policy(namespace, "to-dns",
			"Allows egress traffic to ports 53 and 8053 for pods with the label networking.gardener.cloud/to-dns.",
			toPorts([]corev1.Protocol{corev1.ProtocolTCP, corev1.ProtocolUDP}, 53, 8053)),
		// The addresses of the API server can change at any time, and a wrong one would disconnect the controller that corrects it.
		policy(namespace, "to-runtime-apiserver",
			"Allows egress traffic to the ports of the API server, at any address, for pods with the label "+
				"networking.gardener.cloud/to-runtime-apiserver.",
			toPorts([]corev1.Protocol{corev1.ProtocolTCP}, v.APIServerPorts...)),
	}
}

func policy(namespace, target, description string, egress []networkingv1.NetworkPolicyEgressRule) *networkingv1.NetworkPolicy {
	return &networkingv1.NetworkPolicy{
		TypeMeta: metav1.TypeMeta{APIVersion: networkingv1.SchemeGroupVersion.String(), Kind: "NetworkPolicy"},
		ObjectMeta: metav1.ObjectMeta{
			Namespace: namespace, Name: "garden-" + target, Annotations: map[string]string{resourcesv1alpha1.GardenerDescription: description},
		},
		Spec: networkingv1.NetworkPolicySpec{
			PodSelector: metav1.LabelSelector{MatchLabels: map[string]string{labelPrefix + target: allowed}},
			PolicyTypes: []networkingv1.PolicyType{networkingv1.PolicyTypeEgress}, Egress: egress,
		},
	}
}

// toPorts allows ports at any address. Without ports it allows nothing.
func toPorts(protocols []corev1.Protocol, ports ...int32) []networkingv1.NetworkPolicyEgressRule {
	all := make([]networkingv1.NetworkPolicyPort, 0, len(ports)*len(protocols))
	for _, port := range ports {
		for _, protocol := range protocols {
			all = append(all, networkingv1.NetworkPolicyPort{Protocol: ptr.To(protocol), Port: ptr.To(intstr.FromInt32(port))})
		}
	}
	if len(all) == 0 { // a rule without ports allows all of them
		return nil
	}
	return []networkingv1.NetworkPolicyEgressRule{{Ports: all}}
}

// toNetworks allows networks without others. If nothing is left, it allows nothing.
func toNetworks(networks, without []netip.Prefix) []networkingv1.NetworkPolicyEgressRule {
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
