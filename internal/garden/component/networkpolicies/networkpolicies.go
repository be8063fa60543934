// Package networkpolicies returns the NetworkPolicies of the namespace of the Garden that netpol-controller does not make: for the
// connections of the operator, of netpol-controller itself, and of backups to the metadata service of the cloud. netpol-controller makes
// the policies for connections to Services, and the general ones: Pods with a label networking.gardener.cloud/to-<target>: allowed may
// connect to DNS, to the API server of the runtime cluster, or to networks.
package networkpolicies

import (
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
	"github.com/espalier-dev/espalier/internal/egress"
	"github.com/espalier-dev/espalier/internal/garden/component/etcd"
	"github.com/espalier-dev/espalier/internal/garden/component/gardeneradmission"
	"github.com/espalier-dev/espalier/internal/garden/component/gardenerapiserver"
	"github.com/espalier-dev/espalier/internal/garden/component/resourcemanager"
	"github.com/espalier-dev/espalier/internal/garden/values"
)

// ManagedResource is the name of the ManagedResource with the objects of this package.
const ManagedResource = "garden-networkpolicies"

// Objects returns the policies of the namespace of the Garden.
func Objects(v values.Values) []client.Object {
	objects := []client.Object{
		fromOperator(v.Namespace, "apiserver", "the API server of the virtual cluster",
			map[string]string{"app": "kubernetes", "role": "apiserver"}, 443),
		fromOperator(v.Namespace, "etcd-main", "the main etcd and its sidecar", etcd.Main.Labels(), etcd.ClientPort, 8080),
		fromOperator(v.Namespace, "etcd-events", "the etcd of events", etcd.Events.Labels(), etcd.ClientPort),
		fromOperator(v.Namespace, "gardener-apiserver", "gardener-apiserver", gardenerapiserver.Labels(), gardenerapiserver.Port),
		fromOperator(v.Namespace, "gardener-admission-controller", "gardener-admission-controller", gardeneradmission.Labels(),
			gardeneradmission.Port),
		ofController(v),
	}
	if v.PrometheusHealthChecks {
		objects = append(objects, fromOperator(v.Namespace, "prometheus", "the instances of Prometheus",
			map[string]string{"app": "prometheus", "role": "monitoring"}, 9090))
	}
	if v.BackupMetadataService {
		objects = append(objects, toMetadataService(v))
	}
	return objects
}

// ofController lets netpol-controller connect to the ports of the API server at any address, because the addresses can change at any time.
// If netpol-controller depended on a policy that it makes itself for certain addresses, then after a change it could not connect any more,
// and could not correct the policy.
func ofController(v values.Values) client.Object {
	allows := policy(v.Namespace, "networkpolicies-to-runtime-apiserver",
		"Allows egress traffic to the ports of the API server, at any address, for pods of netpol-controller.")
	allows.Spec = networkingv1.NetworkPolicySpec{
		PodSelector: metav1.LabelSelector{MatchLabels: resourcemanager.NetworkPolicyController()},
		PolicyTypes: []networkingv1.PolicyType{networkingv1.PolicyTypeEgress},
		Egress:      egress.ToPorts([]corev1.Protocol{corev1.ProtocolTCP}, v.APIServerPorts...),
	}
	return allows
}

// toMetadataService lets the Pods that read and write backups connect to the metadata service of the cloud: the members of the main etcd,
// and the Pods that compact its backups. etcd-druid sets the label app.kubernetes.io/part-of of both.
func toMetadataService(v values.Values) client.Object {
	allows := policy(v.Namespace, "etcd-main-to-metadata-service",
		"Allows egress traffic to link-local addresses without blocked ones for pods of the main etcd.")
	allows.Spec = networkingv1.NetworkPolicySpec{
		PodSelector: metav1.LabelSelector{MatchLabels: map[string]string{druidcorev1alpha1.LabelPartOfKey: etcd.Main.Name()}},
		PolicyTypes: []networkingv1.PolicyType{networkingv1.PolicyTypeEgress},
		Egress:      egress.ToNetworks(egress.LinkLocal(), v.Networks.Blocked),
	}
	return allows
}

// fromOperator lets the operator connect to a server of the Garden. The policy is for the Pods of the server. A policy of netpol-controller
// for the Pods of the operator, in another namespace, would deny all other connections of the operator.
func fromOperator(namespace, server, what string, pods map[string]string, ports ...int32) client.Object {
	allowed := make([]networkingv1.NetworkPolicyPort, 0, len(ports))
	for _, port := range ports {
		allowed = append(allowed, networkingv1.NetworkPolicyPort{Protocol: ptr.To(corev1.ProtocolTCP), Port: ptr.To(intstr.FromInt32(port))})
	}
	allows := policy(namespace, "operator-to-virtual-"+server, "Allows ingress traffic from the garden operator to "+what+".")
	allows.Spec = networkingv1.NetworkPolicySpec{
		PodSelector: metav1.LabelSelector{MatchLabels: pods},
		PolicyTypes: []networkingv1.PolicyType{networkingv1.PolicyTypeIngress},
		Ingress: []networkingv1.NetworkPolicyIngressRule{{
			From: []networkingv1.NetworkPolicyPeer{{
				NamespaceSelector: &metav1.LabelSelector{MatchLabels: map[string]string{corev1.LabelMetadataName: deployable.Namespace}},
				PodSelector:       &metav1.LabelSelector{MatchLabels: map[string]string{"app.kubernetes.io/name": "espalier-garden-operator"}},
			}},
			Ports: allowed,
		}},
	}
	return allows
}

func policy(namespace, name, description string) *networkingv1.NetworkPolicy {
	return &networkingv1.NetworkPolicy{
		TypeMeta: metav1.TypeMeta{APIVersion: networkingv1.SchemeGroupVersion.String(), Kind: "NetworkPolicy"},
		ObjectMeta: metav1.ObjectMeta{
			Namespace: namespace, Name: "garden-" + name, Annotations: map[string]string{resourcesv1alpha1.GardenerDescription: description},
		},
	}
}

// Successor returns the name of the general policy of netpol-controller that takes the place of a policy of earlier releases of the
// operator. It returns false if name is not the name of such a former policy.
func Successor(name string) (string, bool) {
	target, former := strings.CutPrefix(name, "garden-to-")
	return "allow-to-" + target, former && slices.Contains([]string{"dns", "private-networks", "public-networks", "runtime-apiserver"}, target)
}
