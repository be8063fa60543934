package desired

import (
	"fmt"
	"slices"

	corev1 "k8s.io/api/core/v1"
	networkingv1 "k8s.io/api/networking/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	resourcesv1alpha1 "github.com/espalier-dev/espalier/api/resources/v1alpha1"
)

// Set is a set of policies with unique names, and the facts to report about them.
type Set struct {
	Policies []*networkingv1.NetworkPolicy
	// LongNames and LongKeys are names of policies and keys of client labels that were shortened.
	LongNames, LongKeys []Shortened
	// Clashes are names for which a second, different policy was desired; the second policy is not in Policies.
	Clashes []types.NamespacedName

	known map[types.NamespacedName]*networkingv1.NetworkPolicy
}

// Shortened is a text that was too long, and its short form.
type Shortened struct{ Long, Short string }

// Build computes the policies of one Service.
type Build struct {
	*Exposure
	// Instance is the value of the label that the policies get; empty for none.
	Instance string

	set Set
}

// NewBuild returns a Build with an empty set.
func NewBuild(e *Exposure) *Build {
	return &Build{Exposure: e, set: Set{known: map[types.NamespacedName]*networkingv1.NetworkPolicy{}}}
}

// Set returns the policies that were added so far.
func (b *Build) Set() Set { return b.set }

// Clients adds a pair of policies for each port, for clients in a namespace, which may be the Service's own.
func (b *Build) Clients(namespace string) {
	for _, p := range b.ports {
		tail := b.labelTail(p, namespace)
		key := resourcesv1alpha1.NetworkingClientLabel(tail)
		if long := whole(tail); long != key {
			b.set.LongKeys = note(b.set.LongKeys, Shortened{Long: long, Short: key})
		}
		b.pair(p, pair{
			client: namespace, pods: metav1.LabelSelector{MatchLabels: map[string]string{key: resourcesv1alpha1.NetworkingClientAllowed}},
			ingress: b.ingressName(p, namespace), egress: b.egressName(p, namespace),
			format: "pods running in namespace %s labeled with %s",
		})
	}
}

// World adds the policy for every peer, if the Service has the annotation for it.
func (b *Build) World() {
	if !b.isOpenToAll {
		return
	}
	rule := networkingv1.NetworkPolicyIngressRule{Ports: b.world}
	b.add(b.service.Namespace, b.worldName(), b.describeWorld(), networkingv1.NetworkPolicySpec{
		PodSelector: b.server(),
		Ingress:     []networkingv1.NetworkPolicyIngressRule{rule},
		PolicyTypes: []networkingv1.PolicyType{networkingv1.PolicyTypeIngress},
	})
}

// Ingresses adds pairs of policies for the ports that Ingresses of the Service's namespace use as backends.
func (b *Build) Ingresses(service *corev1.Service, ingresses []networkingv1.Ingress, controller IngressController) {
	for _, p := range backendPorts(service, ingresses) {
		b.pair(p, pair{
			client: controller.Namespace, pods: controller.Pods,
			ingress: "ingress-to-" + p.id(b.service.Name) + fromController,
			egress:  b.egressName(p, controller.Namespace) + fromController,
			format:  "ingress controller pods running in the %s namespace labeled with %s",
		})
	}
}

// Keep returns the name of the policy for every peer, and true if it must stay as it is because the annotation is invalid.
func (b *Build) Keep() (types.NamespacedName, bool) {
	return types.NamespacedName{Namespace: b.service.Namespace, Name: shortName(b.worldName())}, b.WorldFault != nil
}

// pair is one policy for the Service's Pods and one for its clients.
type pair struct {
	client          string // their namespace
	pods            metav1.LabelSelector
	ingress, egress string
	format          string // describes the clients by their namespace and their selector
}

func (b *Build) pair(p port, of pair) {
	ingressText, egressText := b.describe(p, fmt.Sprintf(of.format, of.client, describeSelector(of.pods)))
	from := networkingv1.NetworkPolicyPeer{PodSelector: &of.pods, NamespaceSelector: b.namespace(of.client, of.client)}
	b.add(b.service.Namespace, of.ingress, ingressText, networkingv1.NetworkPolicySpec{
		PodSelector: b.server(),
		Ingress:     []networkingv1.NetworkPolicyIngressRule{{From: []networkingv1.NetworkPolicyPeer{from}, Ports: p.policyPorts()}},
		PolicyTypes: []networkingv1.PolicyType{networkingv1.PolicyTypeIngress},
	})
	server := b.server()
	to := networkingv1.NetworkPolicyPeer{PodSelector: &server, NamespaceSelector: b.namespace(of.client, b.service.Namespace)}
	b.add(of.client, of.egress, egressText, networkingv1.NetworkPolicySpec{
		PodSelector: of.pods,
		Egress:      []networkingv1.NetworkPolicyEgressRule{{To: []networkingv1.NetworkPolicyPeer{to}, Ports: p.policyPorts()}},
		PolicyTypes: []networkingv1.PolicyType{networkingv1.PolicyTypeEgress},
	})
}

func (b *Build) server() metav1.LabelSelector { return metav1.LabelSelector{MatchLabels: b.selector} }

// namespace returns the selector for the namespace of a peer; nil if clients and Service are in the same one.
func (b *Build) namespace(client, peer string) *metav1.LabelSelector {
	if client == b.service.Namespace {
		return nil
	}
	return &metav1.LabelSelector{MatchLabels: map[string]string{corev1.LabelMetadataName: peer}}
}

func (b *Build) add(namespace, name, description string, spec networkingv1.NetworkPolicySpec) {
	key := types.NamespacedName{Namespace: namespace, Name: shortName(name)}
	if key.Name != name {
		b.set.LongNames = note(b.set.LongNames, Shortened{Long: name, Short: key.Name})
	}
	policy := &networkingv1.NetworkPolicy{
		ObjectMeta: metav1.ObjectMeta{
			Namespace: key.Namespace, Name: key.Name,
			Labels: map[string]string{
				resourcesv1alpha1.NetworkingServiceName:      b.service.Name,
				resourcesv1alpha1.NetworkingServiceNamespace: b.service.Namespace,
			},
			Annotations: map[string]string{resourcesv1alpha1.GardenerDescription: description},
		},
		Spec: spec,
	}
	if b.Instance != "" {
		policy.Labels[resourcesv1alpha1.NetworkingInstance] = b.Instance
	}
	if known := b.set.known[key]; known != nil {
		if Fingerprint(known) != Fingerprint(policy) && !slices.Contains(b.set.Clashes, key) {
			b.set.Clashes = append(b.set.Clashes, key)
		}
		return
	}
	b.set.known[key] = policy
	b.set.Policies = append(b.set.Policies, policy)
}

func note(list []Shortened, s Shortened) []Shortened {
	if slices.Contains(list, s) {
		return list
	}
	return append(list, s)
}
