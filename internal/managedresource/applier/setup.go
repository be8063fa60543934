package applier

import (
	"context"
	"slices"
	"sync/atomic"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/util/workqueue"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/builder"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/controller"
	"sigs.k8s.io/controller-runtime/pkg/event"
	"sigs.k8s.io/controller-runtime/pkg/predicate"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"
	"sigs.k8s.io/controller-runtime/pkg/source"

	corev1beta1 "github.com/espalier-dev/espalier/api/core/v1beta1"
	resourcesv1alpha1 "github.com/espalier-dev/espalier/api/resources/v1alpha1"
	"github.com/espalier-dev/espalier/internal/apply/inventory"
	"github.com/espalier-dev/espalier/internal/apply/observe"
	"github.com/espalier-dev/espalier/internal/conflict"
	"github.com/espalier-dev/espalier/internal/managedresource/plan"
)

// ControllerName names the controller in logs and metrics.
const ControllerName = "managedresource"

// secretIndex finds sets by the names of their Secrets.
const secretIndex = "spec.secretRefs.name"

// The pause between attempts at a set that fails grows from the one to the other.
const (
	shortestPause = 5 * time.Millisecond
	longestPause  = time.Minute
)

// Changes carries what the watches of the target tell to the controller. It is made before both, since each needs it.
type Changes struct {
	memory *memory
	queue  atomic.Pointer[workqueue.TypedRateLimitingInterface[reconcile.Request]]
}

// NewChanges returns Changes that tell nobody yet.
func NewChanges() *Changes { return &Changes{memory: newMemory()} }

// Object is to be called when more than the status of a managed object changed.
func (c *Changes) Object(kind schema.GroupKind, namespace, name string) {
	c.wake(c.memory.users(inventory.KeyOf(kind.Group, kind.Kind, namespace, name)))
}

// Scaled is to be called when an autoscaler that points at an object changed: nobody wrote to the object, and yet it
// must be looked at. The autoscaler may name it by an older group.
func (c *Changes) Scaled(kind schema.GroupKind, namespace, name string) {
	own := metav1.GroupKind{Group: kind.Group, Kind: kind.Kind}
	for _, each := range slices.Concat([]metav1.GroupKind{own}, inventory.NewEquivalences(nil).Of(own)) {
		c.wake(c.memory.soil(inventory.KeyOf(each.Group, each.Kind, namespace, name)))
	}
}

func (c *Changes) wake(sets []types.NamespacedName) {
	queue := c.queue.Load()
	if queue == nil {
		return
	}
	for _, name := range sets {
		(*queue).Add(reconcile.Request{NamespacedName: name})
	}
}

// SetupWithManager adds the controller to the manager of the source cluster.
func (r *Reconciler) SetupWithManager(ctx context.Context, mgr ctrl.Manager, changes *Changes, workers int, cacheSyncTimeout time.Duration) error {
	r.memory = changes.memory
	err := mgr.GetFieldIndexer().IndexField(ctx, &resourcesv1alpha1.ManagedResource{}, secretIndex, SecretNames)
	if err != nil {
		return err //nolint:wrapcheck // the caller names the controller
	}
	wake := source.Func(func(_ context.Context, queue workqueue.TypedRateLimitingInterface[reconcile.Request]) error {
		changes.queue.Store(&queue)
		return nil
	})
	b := ctrl.NewControllerManagedBy(mgr).
		Named(ControllerName).
		For(&resourcesv1alpha1.ManagedResource{}, builder.WithPredicates(r.setEvents())).
		WatchesRawSource(r.SecretVersions.Changes(r.setsOf)).
		WatchesRawSource(wake).
		WithOptions(controller.Options{
			MaxConcurrentReconciles: workers,
			CacheSyncTimeout:        cacheSyncTimeout,
			RateLimiter:             workqueue.NewTypedItemExponentialFailureRateLimiter[reconcile.Request](shortestPause, longestPause),
		})
	return r.watchNamespaces(b).Complete(conflict.RetryAtOnce(r)) //nolint:wrapcheck // the caller names the controller
}

// SecretNames lists the Secrets that a set is read from.
func SecretNames(object client.Object) []string {
	mr, ok := object.(*resourcesv1alpha1.ManagedResource)
	if !ok {
		return nil
	}
	names := make([]string, 0, len(mr.Spec.SecretRefs))
	for _, ref := range mr.Spec.SecretRefs {
		names = append(names, ref.Name)
	}
	return names
}

// setsOf lists the sets that are read from a Secret and that we may have to act on.
func (r *Reconciler) setsOf(ctx context.Context, secret types.NamespacedName) []reconcile.Request {
	return r.requestsFor(ctx, client.InNamespace(secret.Namespace), client.MatchingFields{secretIndex: secret.Name})
}

// requestsFor returns requests for the sets in the cache that the controller may have to act on.
func (r *Reconciler) requestsFor(ctx context.Context, options ...client.ListOption) []reconcile.Request {
	sets := &resourcesv1alpha1.ManagedResourceList{}
	if err := r.Source.List(ctx, sets, append(options, client.UnsafeDisableDeepCopy)...); err != nil {
		return nil // only a cache that has not started fails, and then every set is reconciled anyway
	}
	var requests []reconcile.Request
	for i := range sets.Items {
		mr := &sets.Items[i]
		if r.concerned(mr) && (!ignored(mr) || mr.DeletionTimestamp != nil) {
			requests = append(requests, reconcile.Request{NamespacedName: client.ObjectKeyFromObject(mr)})
		}
	}
	return requests
}

// concerned is the class filter: the set is ours, or asks for us.
func (r *Reconciler) concerned(mr *resourcesv1alpha1.ManagedResource) bool {
	return r.Class.holds(mr) || r.Class.responsible(mr)
}

// setEvents passes the events of sets that may change what has to be done (specification 2.1).
func (r *Reconciler) setEvents() predicate.Predicate {
	return predicate.Funcs{
		CreateFunc: func(e event.CreateEvent) bool { return r.passes(nil, e.Object) },
		UpdateFunc: func(e event.UpdateEvent) bool { return r.passes(e.ObjectOld, e.ObjectNew) },
		DeleteFunc: func(e event.DeleteEvent) bool {
			return r.memory.knows(client.ObjectKeyFromObject(e.Object)) || r.passes(nil, e.Object)
		},
	}
}

func (r *Reconciler) passes(before, after client.Object) bool {
	next, ok := after.(*resourcesv1alpha1.ManagedResource)
	if !ok {
		return false
	}
	old, known := before.(*resourcesv1alpha1.ManagedResource)
	if !r.concerned(next) { // a plan of ours may be left
		return known && r.concerned(old) && next.Annotations[resourcesv1alpha1.Planned] != ""
	}
	return !known || relevant(old, next)
}

// relevant tells whether an update may change what has to be done with a set.
func relevant(old, next *resourcesv1alpha1.ManagedResource) bool {
	wasIgnored, isIgnored := ignored(old), ignored(next)
	if isIgnored && wasIgnored && next.DeletionTimestamp == nil {
		return false
	}
	switch next.Annotations[resourcesv1alpha1.GardenerOperation] {
	case resourcesv1alpha1.OperationReconcile, resourcesv1alpha1.OperationRestore, resourcesv1alpha1.OperationMigrate:
		return true
	}
	waited := old.Annotations[resourcesv1alpha1.GardenerOperation] == resourcesv1alpha1.OperationWaitForState &&
		next.Annotations[resourcesv1alpha1.GardenerOperation] != resourcesv1alpha1.OperationWaitForState
	return waited || replanned(old, next) || old.Generation != next.Generation || wasIgnored != isIgnored ||
		(old.DeletionTimestamp == nil) != (next.DeletionTimestamp == nil) ||
		turnedUnhealthy(old, next) || letGo(old, next) || observe.Older(next.ResourceVersion, old.ResourceVersion) ||
		old.Annotations[resourcesv1alpha1.Kstatus] != next.Annotations[resourcesv1alpha1.Kstatus]
}

// replanned reports whether an annotation that asks for a plan, or for the values in it, was added, removed or changed.
func replanned(old, next *resourcesv1alpha1.ManagedResource) bool {
	before, had := old.Annotations[resourcesv1alpha1.Plan]
	after, has := next.Annotations[resourcesv1alpha1.Plan]
	return had != has || before != after || has && plan.ValuesAsked(old) != plan.ValuesAsked(next)
}

// letGo tells whether another instance has removed its finalizer: a set that waited for that can now be served.
func letGo(old, next *resourcesv1alpha1.ManagedResource) bool {
	return heldByAnyInstance(old) && len(next.Finalizers) < len(old.Finalizers)
}

func turnedUnhealthy(old, next *resourcesv1alpha1.ManagedResource) bool {
	before := corev1beta1.GetCondition(old.Status.Conditions, resourcesv1alpha1.ResourcesHealthy)
	after := corev1beta1.GetCondition(next.Status.Conditions, resourcesv1alpha1.ResourcesHealthy)
	return after != nil && after.Status == corev1beta1.ConditionFalse && (before == nil || before.Status == corev1beta1.ConditionTrue)
}
