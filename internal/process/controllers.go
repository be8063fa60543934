package process

import (
	"context"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	toolscache "k8s.io/client-go/tools/cache"
	"k8s.io/client-go/util/workqueue"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/controller"
	"sigs.k8s.io/controller-runtime/pkg/event"
	"sigs.k8s.io/controller-runtime/pkg/handler"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"
)

// Deadline is the time limit for one reconciliation of most controllers.
const Deadline = 3 * time.Minute

// ControllerOptions returns the options of a controller. The argument deadline is the time limit for one reconciliation; 0 means none. The
// pause after a failure grows from shortest to longest.
func ControllerOptions(workers int, deadline, shortest, longest time.Duration) controller.Options {
	return controller.Options{
		MaxConcurrentReconciles: workers,
		ReconciliationTimeout:   deadline,
		RateLimiter:             workqueue.NewTypedItemExponentialFailureRateLimiter[reconcile.Request](shortest, longest),
	}
}

// Queue is the queue of a controller.
type Queue = workqueue.TypedRateLimitingInterface[reconcile.Request]

// OnEvent returns a handler that calls a function for each event. The argument before is nil for an object that was created, after is nil
// for an object that was deleted.
func OnEvent[T client.Object](happened func(ctx context.Context, before, after T, queue Queue)) handler.TypedFuncs[T, reconcile.Request] {
	var none T
	return handler.TypedFuncs[T, reconcile.Request]{
		CreateFunc: func(ctx context.Context, e event.TypedCreateEvent[T], q Queue) { happened(ctx, none, e.Object, q) },
		UpdateFunc: func(ctx context.Context, e event.TypedUpdateEvent[T], q Queue) {
			happened(ctx, e.ObjectOld, e.ObjectNew, q)
		},
		DeleteFunc: func(ctx context.Context, e event.TypedDeleteEvent[T], q Queue) { happened(ctx, e.Object, none, q) },
	}
}

// Identity returns the part of an object's metadata that caches need in every object.
func Identity(object metav1.Object) metav1.ObjectMeta {
	return metav1.ObjectMeta{
		Namespace: object.GetNamespace(), Name: object.GetName(), UID: object.GetUID(), ResourceVersion: object.GetResourceVersion(),
	}
}

// Keeping returns a transform for caches, which then store the result of keep instead of the object. The transform does not change objects
// of other types, such as markers of deleted objects.
func Keeping[T, Kept any](keep func(T) Kept) toolscache.TransformFunc {
	return func(object any) (any, error) {
		if found, ok := object.(T); ok {
			return keep(found), nil
		}
		return object, nil
	}
}
