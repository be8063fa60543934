// Package gardener has what the programs of Gardener in the virtual cluster have in common: gardener-apiserver,
// gardener-admission-controller, gardener-controller-manager and gardener-scheduler.
//
// Each has objects in the runtime cluster that are deployed directly (the Secret with its token for the virtual cluster, and its
// configuration files), a ManagedResource with the other objects there, and a ManagedResource with those in the virtual cluster. The
// ServiceAccount in the virtual cluster has the name of the program. No program has rights in the runtime cluster.
package gardener

import (
	"maps"
	"slices"

	corev1 "k8s.io/api/core/v1"
	policyv1 "k8s.io/api/policy/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/intstr"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/espalier-dev/espalier/api/managedresources"
	resourcesv1alpha1 "github.com/espalier-dev/espalier/api/resources/v1alpha1"
	"github.com/espalier-dev/espalier/internal/garden/component/shared"
	"github.com/espalier-dev/espalier/internal/garden/values"
	"github.com/espalier-dev/espalier/internal/garden/versions"
)

// Authority is the certificate authority of the servers.
const Authority = "ca-gardener"

// Parts of names, together with the name of the program.
const (
	// RuntimeSuffix ends the name of the ManagedResource with objects in the runtime cluster.
	RuntimeSuffix = "-runtime"
	// VirtualSuffix ends the name of the ManagedResource with objects in the virtual cluster.
	VirtualSuffix = "-virtual"
	// AccessPrefix begins the name of the Secret with the token for the virtual cluster.
	AccessPrefix = "shoot-access-"
)

// Objects are the objects of a program in the runtime cluster.
type Objects struct {
	// Direct are deployed directly, before the ManagedResource.
	Direct []client.Object
	// Set are those of the ManagedResource.
	Set []client.Object
}

// Ready returns why the objects of a ManagedResource are not as they were deployed, or nil.
func Ready(set *resourcesv1alpha1.ManagedResource) error {
	return managedresources.CheckAppliedAndHealthy(set)
}

// RolledOut does the same as Ready, and also returns an error as long as Pods of before a change run.
func RolledOut(set *resourcesv1alpha1.ManagedResource) error {
	if err := Ready(set); err != nil {
		return err
	}
	return managedresources.CheckNotProgressing(set)
}

// Labels returns the labels of all objects of a program.
func Labels(role string) map[string]string { return map[string]string{"app": "gardener", "role": role} }

// Owner returns the owner of the objects in the runtime cluster.
func Owner(v values.Values, role string) shared.Owner {
	return shared.Owner{Namespace: v.Namespace, Labels: Labels(role)}
}

// VirtualOwner returns the owner of the objects in the virtual cluster, where ServiceAccounts are in the namespace kube-system.
func VirtualOwner(role string) shared.Owner {
	return shared.Owner{Namespace: metav1.NamespaceSystem, Labels: Labels(role)}
}

// Service returns a Service for the Pods of a program, of which the garden's Prometheus may scrape a port.
func Service(owner shared.Owner, name string, scraped int32, ports ...corev1.ServicePort) *corev1.Service {
	meta := owner.Meta(name)
	meta.Annotations = shared.From(shared.GardenScrapeTargets, scraped)
	return &corev1.Service{TypeMeta: shared.Type("v1", "Service"), ObjectMeta: meta, Spec: corev1.ServiceSpec{
		Type: corev1.ServiceTypeClusterIP, Selector: maps.Clone(owner.Labels), Ports: ports,
	}}
}

// CalledByServers lets API servers call a port of the Pods of a Service, as they call webhooks, and prefers endpoints in their zone.
func CalledByServers(v values.Values, service *corev1.Service, port int32) {
	service.Annotations = shared.Union(service.Annotations, shared.From(shared.WebhookTargets, port))
	service.Spec.TrafficDistribution = shared.TrafficDistribution(v)
}

// DisruptionBudget lets one Pod of a program be evicted at a time.
func DisruptionBudget(owner shared.Owner, name string) *policyv1.PodDisruptionBudget {
	return owner.DisruptionBudget(name, owner.Labels, policyv1.PodDisruptionBudgetSpec{
		MaxUnavailable: ptr.To(intstr.FromInt32(1)), UnhealthyPodEvictionPolicy: ptr.To(policyv1.AlwaysAllow),
	})
}

// PodSecurityContext returns the security context of the Pods, with the user of the images.
func PodSecurityContext() *corev1.PodSecurityContext {
	const user = 65532
	return &corev1.PodSecurityContext{
		RunAsNonRoot: ptr.To(true), RunAsUser: ptr.To[int64](user), RunAsGroup: ptr.To[int64](user), FSGroup: ptr.To[int64](user),
	}
}

// FeatureGates returns the gates with which a program starts: those that it has, unless they are locked to the other value.
func FeatureGates(component versions.Component, wanted map[string]bool) map[string]bool {
	gates := maps.Clone(wanted)
	maps.DeleteFunc(gates, func(name string, value bool) bool { return !versions.TakesGardenerGate(component, name, value) })
	return gates
}

// IgnoredGates returns the gates that FeatureGates leaves out, as texts for the user.
func IgnoredGates(component versions.Component, wanted map[string]bool) []string {
	var ignored []string
	for name, value := range wanted {
		if !versions.TakesGardenerGate(component, name, value) {
			ignored = append(ignored, "feature gate "+name)
		}
	}
	return ignored
}

// Has reports whether a ManagedResource, which is nil if it does not exist, has brought objects of a kind into its cluster.
func Has(set *resourcesv1alpha1.ManagedResource, kind string) bool {
	return set != nil && slices.ContainsFunc(set.Status.Resources, func(each resourcesv1alpha1.ObjectReference) bool {
		return each.Kind == kind
	})
}
