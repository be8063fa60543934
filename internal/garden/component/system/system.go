// Package system has the system resources of the runtime cluster: the PriorityClasses of Gardener's components.
package system

import (
	schedulingv1 "k8s.io/api/scheduling/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

// ManagedResource is the name of the ManagedResource with these objects.
const ManagedResource = "garden-system"

// Critical is the PriorityClass of the components that everything else needs. It is not part of Objects, because the
// ManagedResource needs a running resource manager, whose Pods have this class.
const Critical = "gardener-garden-system-critical"

// Objects returns the objects of the ManagedResource.
func Objects() []client.Object {
	return []client.Object{
		priorityClass("gardener-garden-system-500", 999999500),
		priorityClass("gardener-garden-system-400", 999999400),
		priorityClass("gardener-garden-system-300", 999999300),
		priorityClass("gardener-garden-system-200", 999999200),
		priorityClass("gardener-garden-system-100", 999999100),
	}
}

// CriticalClass returns the PriorityClass Critical. The chart of Gardener's operator has it too, with the same content.
func CriticalClass() client.Object { return priorityClass(Critical, 999999550) }

func priorityClass(name string, value int32) *schedulingv1.PriorityClass {
	return &schedulingv1.PriorityClass{
		TypeMeta:    metav1.TypeMeta{APIVersion: schedulingv1.SchemeGroupVersion.String(), Kind: "PriorityClass"},
		ObjectMeta:  metav1.ObjectMeta{Name: name},
		Description: "PriorityClass for Garden system components", GlobalDefault: false, Value: value,
	}
}
