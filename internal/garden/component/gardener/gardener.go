// Package gardener contains the common parts of the programs of Gardener for the virtual cluster: gardener-apiserver,
// gardener-admission-controller, gardener-controller-manager and gardener-scheduler.
//
// Each program has objects in the runtime cluster that are deployed directly (the Secret with its token for the virtual cluster, and its
// configuration files), a ManagedResource with its other objects in the runtime cluster, and a ManagedResource with its objects in the
// virtual cluster. The ServiceAccount in the virtual cluster has the name of the program. No program has rights in the runtime cluster.
//
// A deletion deletes the ManagedResource for the virtual cluster and waits until it is gone. Then it deletes the ManagedResource for the
// runtime cluster and waits in the same way. In the end it deletes the Secret.
package gardener

import (
	"slices"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	resourcesv1alpha1 "github.com/espalier-dev/espalier/api/resources/v1alpha1"
	"github.com/espalier-dev/espalier/internal/garden/component/network"
	"github.com/espalier-dev/espalier/internal/garden/component/object"
	"github.com/espalier-dev/espalier/internal/garden/rotation"
	"github.com/espalier-dev/espalier/internal/garden/values"
)

// Authority is the certificate authority of the servers.
const Authority = rotation.GardenerAuthority

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
	// Set are the objects of the ManagedResource.
	Set []client.Object
}

// Labels returns the labels of all objects of a program.
func Labels(role string) map[string]string { return map[string]string{"app": "gardener", "role": role} }

// Owner returns the owner of the objects in the runtime cluster.
func Owner(v values.Values, role string) object.Owner {
	return object.Owner{Namespace: v.Namespace, Labels: Labels(role)}
}

// VirtualOwner returns the owner of the objects in the virtual cluster, where ServiceAccounts are in the namespace kube-system.
func VirtualOwner(role string) object.Owner {
	return object.Owner{Namespace: metav1.NamespaceSystem, Labels: Labels(role)}
}

// CalledByServers lets API servers call a port of the Pods of a Service, as they call webhooks. With routing that is aware of the
// topology, API servers prefer endpoints in their own zone.
func CalledByServers(v values.Values, service *corev1.Service, port int32) {
	service.Annotations = object.Union(service.Annotations, network.From(network.WebhookTargets, port))
	service.Spec.TrafficDistribution = object.TrafficDistribution(v)
}

// Has reports whether the status of a ManagedResource lists an object of a kind, so that the object is in the cluster. A ManagedResource
// that does not exist is nil.
func Has(set *resourcesv1alpha1.ManagedResource, kind string) bool {
	return set != nil && slices.ContainsFunc(set.Status.Resources, func(each resourcesv1alpha1.ObjectReference) bool {
		return each.Kind == kind
	})
}
