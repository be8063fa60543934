package takeover

import (
	"slices"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"

	operatorv1alpha1 "github.com/espalier-dev/espalier/api/operator/v1alpha1"
	"github.com/espalier-dev/espalier/internal/garden/component/gardenerapiserver"
	"github.com/espalier-dev/espalier/internal/garden/component/kubeapiserver"
	"github.com/espalier-dev/espalier/internal/garden/validation"
	"github.com/espalier-dev/espalier/internal/rollout"
)

// Leftover is an object of a former garden that no component of the Garden replaces. The operator removes it if the Garden confirms it.
type Leftover struct {
	Cluster Cluster
	Kind    schema.GroupVersionKind
	// Namespace is empty for the garden namespace.
	Namespace, Name string
	// Because says why the object must be removed.
	Because string
}

var (
	serviceKind         = corev1.SchemeGroupVersion.WithKind("Service")
	endpointsKind       = corev1.SchemeGroupVersion.WithKind("Endpoints")
	configMapKind       = corev1.SchemeGroupVersion.WithKind("ConfigMap")
	destinationRuleKind = schema.GroupVersionKind{Group: "networking.istio.io", Version: "v1beta1", Kind: "DestinationRule"}
)

const (
	endsTLS = "with it, the gateway would end the TLS connections of clients, which the gateway of garden-operator passes on"
	twice   = "kube-state-metrics would run twice: its ManagedResource has another name now"
	moved   = "the APIServices now use the Service of this name in namespace kube-system of the virtual cluster"

	istioNamespace = "istio-system"
)

// leftovers are all objects of former gardens that must be removed. Users made such a garden by hand, in the same way as garden-setup, or
// Gardener's operator deployed it.
var leftovers = []Leftover{
	{Runtime, rollout.ManagedResource, "", "kube-apiserver-sni", endsTLS},
	{Runtime, rollout.ManagedResource, "", "istio-tls-secrets", endsTLS},
	{Runtime, rollout.ManagedResource, istioNamespace, "istio-tls-secrets", endsTLS},
	{Runtime, serviceKind, "", kubeapiserver.Name + "-mtls", endsTLS},
	{Runtime, serviceKind, "", kubeapiserver.Name + "-connection-upgrade", endsTLS},
	{Runtime, destinationRuleKind, "", kubeapiserver.Name + "-mtls", endsTLS},
	{Runtime, destinationRuleKind, "", kubeapiserver.Name + "-connection-upgrade", endsTLS},
	{Runtime, configMapKind, "", "istio-internal-load-balancing", endsTLS},
	{Runtime, rollout.ManagedResource, "", "kube-state-metrics", twice},
	{Virtual, serviceKind, "", gardenerapiserver.Name, moved},
	{Virtual, endpointsKind, "", gardenerapiserver.Name, moved},
}

// Leftovers returns the identities of the leftovers of a cluster.
func Leftovers(cluster Cluster, namespace string) []*unstructured.Unstructured {
	var all []*unstructured.Unstructured
	for _, each := range leftovers {
		if each.Cluster == cluster {
			all = append(all, rollout.Identity(each.Kind, each.in(namespace), each.Name))
		}
	}
	return all
}

func (l Leftover) in(namespace string) string {
	if l.Namespace == "" {
		return namespace
	}
	return l.Namespace
}

func leftoverOf(cluster Cluster, namespace string, o *unstructured.Unstructured) (Leftover, bool) {
	i := slices.IndexFunc(leftovers, func(l Leftover) bool {
		return l.Cluster == cluster && l.Kind.GroupKind() == o.GroupVersionKind().GroupKind() && l.in(namespace) == o.GetNamespace() &&
			l.Name == o.GetName()
	})
	if i < 0 || belongsToSet(o) {
		return Leftover{}, false
	}
	return leftovers[i], true
}

// Confirmed returns the digests of the leftovers whose removal a Garden confirms.
func Confirmed(garden *operatorv1alpha1.Garden) []string {
	all := validation.ListOf(garden, operatorv1alpha1.AnnotationConfirmLeftovers)
	return slices.DeleteFunc(all, func(digest string) bool { return digest == "" })
}
