// Package system returns the system resources of the runtime cluster: the PriorityClasses of Gardener's components.
package system

import (
	schedulingv1 "k8s.io/api/scheduling/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/espalier-dev/espalier/internal/deployable"
)

// ManagedResource is the name of the ManagedResource with these objects.
const ManagedResource = "garden-system"

// Critical is the PriorityClass of the components that everything else needs. It is not part of Objects, because it is deployed together
// with the operator: the Pods of the operator have this PriorityClass, too.
const Critical = deployable.CriticalPriority

// PriorityClasses of components, by their importance.
const (
	// Class500 is for etcds and API servers.
	Class500 = "gardener-garden-system-500"
	// Class400 is for the resource manager of the virtual cluster, gardener-admission-controller, and the admission controllers of
	// Extensions.
	Class400 = "gardener-garden-system-400"
	// Class300 is for the admission of the vertical pod autoscaler, etcd-druid, nginx-ingress and kube-controller-manager.
	Class300 = "gardener-garden-system-300"
	// Class200 is for the other parts of the vertical pod autoscaler, gardener-controller-manager and gardener-scheduler.
	Class200 = "gardener-garden-system-200"
	// Class100 is for observability components.
	Class100 = "gardener-garden-system-100"
)

// Objects returns the objects of the ManagedResource.
func Objects() []client.Object {
	return []client.Object{
		priorityClass(Class500, 999999500),
		priorityClass(Class400, 999999400),
		priorityClass(Class300, 999999300),
		priorityClass(Class200, 999999200),
		priorityClass(Class100, 999999100),
	}
}

func priorityClass(name string, value int32) *schedulingv1.PriorityClass {
	return &schedulingv1.PriorityClass{
		TypeMeta:    metav1.TypeMeta{APIVersion: schedulingv1.SchemeGroupVersion.String(), Kind: "PriorityClass"},
		ObjectMeta:  metav1.ObjectMeta{Name: name},
		Description: "PriorityClass for Garden system components", GlobalDefault: false, Value: value,
	}
}
