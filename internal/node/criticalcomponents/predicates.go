package criticalcomponents

import (
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/equality"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/event"
	"sigs.k8s.io/controller-runtime/pkg/predicate"
)

// changed passes updates that change a cached field of an object. Nearly all updates of Pods, DaemonSets and Nodes change only other
// fields.
func changed[T client.Object]() predicate.TypedFuncs[T] {
	return predicate.TypedFuncs[T]{UpdateFunc: func(e event.TypedUpdateEvent[T]) bool { return !same(e.ObjectOld, e.ObjectNew) }}
}

// same compares two versions of an object, except for their resource versions.
func same[T client.Object](before, after T) bool {
	return equality.Semantic.DeepEqual(unversioned(before), unversioned(after))
}

func unversioned[T client.Object](object T) any {
	clone := object.DeepCopyObject()
	if meta, ok := clone.(client.Object); ok {
		meta.SetResourceVersion("")
	}
	return clone
}

// waits passes events of Nodes that have the taint, or had it until now.
func waits() predicate.TypedFuncs[*corev1.Node] {
	return predicate.TypedFuncs[*corev1.Node]{
		CreateFunc: func(e event.TypedCreateEvent[*corev1.Node]) bool { return tainted(e.Object) },
		DeleteFunc: func(e event.TypedDeleteEvent[*corev1.Node]) bool { return tainted(e.Object) },
		UpdateFunc: func(e event.TypedUpdateEvent[*corev1.Node]) bool {
			return (tainted(e.ObjectOld) || tainted(e.ObjectNew)) && !same(e.ObjectOld, e.ObjectNew)
		},
	}
}
