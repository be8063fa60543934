package applier

import (
	"context"
	"slices"
	"sync/atomic"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/builder"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/event"
	"sigs.k8s.io/controller-runtime/pkg/predicate"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"
	"sigs.k8s.io/controller-runtime/pkg/source"

	corev1beta1 "github.com/espalier-dev/espalier/api/core/v1beta1"
	resourcesv1alpha1 "github.com/espalier-dev/espalier/api/resources/v1alpha1"
	"github.com/espalier-dev/espalier/internal/apply/inventory"
	"github.com/espalier-dev/espalier/internal/apply/observe"
	"github.com/espalier-dev/espalier/internal/conflict"
	"github.com/espalier-dev/espalier/internal/managedresource/atrest"
	"github.com/espalier-dev/espalier/internal/managedresource/plan"
	"github.com/espalier-dev/espalier/internal/managedresource/state"
	"github.com/espalier-dev/espalier/internal/process"
)

// ControllerName names the controller in logs and metrics.
const ControllerName = "managedresource"

// secretIndex is the name of the cache index that finds sets by the names of their Secrets.
const secretIndex = "spec.secretRefs.name"

// The pause after a failed reconciliation of a set grows from shortestPause to longestPause.
const (
	shortestPause = 5 * time.Millisecond
	longestPause  = time.Minute
)

// Changes forwards events from the watches of the target to the controller. It is created before both, since both need it.
type Changes struct {
	memory *state.Memory
	queue  atomic.Pointer[process.Queue]
}

// NewChanges returns Changes that drop all events until the controller starts.
func NewChanges(memory *state.Memory) *Changes { return &Changes{memory: memory} }

// Object must be called when more than the status of a managed object changed.
func (c *Changes) Object(kind schema.GroupKind, namespace, name string) {
	c.enqueue(c.Users(kind, namespace, name))
}

// Scaled must be called when an autoscaler of an object changed: the object has not changed, but must be compared with its manifest again.
// The autoscaler may refer to the object by an older API group.
func (c *Changes) Scaled(kind schema.GroupKind, namespace, name string) {
	own := metav1.GroupKind{Group: kind.Group, Kind: kind.Kind}
	for _, each := range slices.Concat([]metav1.GroupKind{own}, inventory.NewEquivalences(nil).Of(own)) {
		c.enqueue(c.memory.MarkDirty(inventory.KeyOf(each.Group, each.Kind, namespace, name)))
	}
}

// Users lists the sets that contain an object.
func (c *Changes) Users(kind schema.GroupKind, namespace, name string) []types.NamespacedName {
	return c.memory.SubscribersOf(inventory.KeyOf(kind.Group, kind.Kind, namespace, name))
}

// Ledger gives other controllers of the process access to the state that this controller stores about sets.
type Ledger struct {
	*state.Memory
	Class
}

// Ledger returns the state of the sets of the controller that uses these Changes.
func (c *Changes) Ledger(class Class) *Ledger { return &Ledger{c.memory, class} }

func (c *Changes) enqueue(sets []types.NamespacedName) {
	queue := c.queue.Load()
	if queue == nil {
		return
	}
	for _, name := range sets {
		(*queue).Add(reconcile.Request{NamespacedName: name})
	}
}

// SetupWithManager adds the controller to the manager of the source cluster.
func (r *Reconciler) SetupWithManager(ctx context.Context, mgr ctrl.Manager, changes *Changes, workers int) error {
	err := mgr.GetFieldIndexer().IndexField(ctx, &resourcesv1alpha1.ManagedResource{}, secretIndex, SecretNames)
	if err != nil {
		return err
	}
	if err := mgr.GetFieldIndexer().IndexField(ctx, &resourcesv1alpha1.ManagedResource{}, dependencyIndex, dependencyKeys); err != nil {
		return err
	}
	requests := source.Func(func(_ context.Context, queue process.Queue) error {
		changes.queue.Store(&queue)
		return nil
	})
	sweep := &atrest.Sweep{Inner: conflict.RetryAtOnce(r), AtRest: r.isInSync, Period: r.Config.SyncPeriod.Duration, Clock: r.Clock}
	b := ctrl.NewControllerManagedBy(mgr).
		Named(ControllerName).
		For(&resourcesv1alpha1.ManagedResource{}, builder.WithPredicates(r.setEvents())).
		WatchesRawSource(r.SecretVersions.Changes(r.setsOf)).
		WatchesRawSource(requests).
		WatchesRawSource(sweep.Source()).
		WithOptions(process.ControllerOptions(workers, 0, shortestPause, longestPause))
	return r.watchAccounts(r.watchDependencies(r.watchNamespaces(b))).Complete(sweep)
}

// SecretNames lists the Secrets that a set references.
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

// setsOf returns requests for the sets that reference a Secret and that the controller may have to apply.
func (r *Reconciler) setsOf(ctx context.Context, secret types.NamespacedName) []reconcile.Request {
	return r.requestsFor(ctx, client.InNamespace(secret.Namespace), client.MatchingFields{secretIndex: secret.Name})
}

// requestsFor returns requests for the sets in the cache that the controller may have to apply.
func (r *Reconciler) requestsFor(ctx context.Context, options ...client.ListOption) []reconcile.Request {
	sets := &resourcesv1alpha1.ManagedResourceList{}
	if err := r.Source.List(ctx, sets, append(options, client.UnsafeDisableDeepCopy)...); err != nil {
		return nil // only a cache that has not started fails, and then every set is reconciled anyway
	}
	var requests []reconcile.Request
	for i := range sets.Items {
		mr := &sets.Items[i]
		if r.isConcerned(mr) && (!ignored(mr) || mr.DeletionTimestamp != nil) {
			requests = append(requests, reconcile.Request{NamespacedName: client.ObjectKeyFromObject(mr)})
		}
	}
	return requests
}

// isConcerned reports whether the set has the class of this controller, or the finalizer of that class.
func (r *Reconciler) isConcerned(mr *resourcesv1alpha1.ManagedResource) bool {
	return r.Class.hasFinalizer(mr) || r.Class.Responsible(mr)
}

// setEvents passes the events of sets that may require a reconciliation.
func (r *Reconciler) setEvents() predicate.Predicate {
	return predicate.Funcs{
		CreateFunc: func(e event.CreateEvent) bool { return r.isRelevantFor(nil, e.Object) },
		UpdateFunc: func(e event.UpdateEvent) bool { return r.isRelevantFor(e.ObjectOld, e.ObjectNew) },
		DeleteFunc: func(e event.DeleteEvent) bool {
			return r.Memory.Contains(client.ObjectKeyFromObject(e.Object)) || r.isRelevantFor(nil, e.Object)
		},
	}
}

func (r *Reconciler) isRelevantFor(before, after client.Object) bool {
	next, ok := after.(*resourcesv1alpha1.ManagedResource)
	if !ok {
		return false
	}
	old, known := before.(*resourcesv1alpha1.ManagedResource)
	if !r.isConcerned(next) { // this controller may have to remove its plan
		return known && r.isConcerned(old) && next.Annotations[resourcesv1alpha1.Planned] != ""
	}
	return !known || relevant(old, next)
}

// relevant reports whether an update of a set may require a reconciliation.
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
		turnedUnhealthy(old, next) || finalizerReleased(old, next) || observe.Older(next.ResourceVersion, old.ResourceVersion) ||
		slices.ContainsFunc([]string{
			resourcesv1alpha1.Kstatus, resourcesv1alpha1.ConfirmDeletion, resourcesv1alpha1.IgnoreFields, resourcesv1alpha1.Approved,
			resourcesv1alpha1.Drift, resourcesv1alpha1.DependsOn, resourcesv1alpha1.ServiceAccount,
		}, func(key string) bool {
			before, had := old.Annotations[key]
			after, has := next.Annotations[key]
			return had != has || before != after // an empty value differs from none
		})
}

// replanned reports whether one of the annotations that request a plan, or values in the plan, was added, removed or changed.
func replanned(old, next *resourcesv1alpha1.ManagedResource) bool {
	before, had := old.Annotations[resourcesv1alpha1.Plan]
	after, has := next.Annotations[resourcesv1alpha1.Plan]
	return had != has || before != after || has && plan.ValuesAsked(old) != plan.ValuesAsked(next)
}

// finalizerReleased reports whether a finalizer was removed from a set that had the finalizer of a class. If a controller has removed this
// finalizer, the controller of another class may process the set now.
func finalizerReleased(old, next *resourcesv1alpha1.ManagedResource) bool {
	return hasFinalizerOfAnyInstance(old) && len(next.Finalizers) < len(old.Finalizers)
}

func turnedUnhealthy(old, next *resourcesv1alpha1.ManagedResource) bool {
	before := corev1beta1.GetCondition(old.Status.Conditions, resourcesv1alpha1.ResourcesHealthy)
	after := corev1beta1.GetCondition(next.Status.Conditions, resourcesv1alpha1.ResourcesHealthy)
	return after != nil && after.Status == corev1beta1.ConditionFalse && (before == nil || before.Status == corev1beta1.ConditionTrue)
}
