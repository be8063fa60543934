package care

import (
	"context"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/builder"
	"sigs.k8s.io/controller-runtime/pkg/cache"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/event"
	"sigs.k8s.io/controller-runtime/pkg/handler"
	"sigs.k8s.io/controller-runtime/pkg/log"
	"sigs.k8s.io/controller-runtime/pkg/predicate"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"
	"sigs.k8s.io/controller-runtime/pkg/source"

	corev1beta1 "github.com/espalier-dev/espalier/api/core/v1beta1"
	operatorv1alpha1 "github.com/espalier-dev/espalier/api/operator/v1alpha1"
	resourcesv1alpha1 "github.com/espalier-dev/espalier/api/resources/v1alpha1"
	"github.com/espalier-dev/espalier/internal/conflict"
	"github.com/espalier-dev/espalier/internal/garden/late"
	"github.com/espalier-dev/espalier/internal/health"
	"github.com/espalier-dev/espalier/internal/process"
)

// ControllerName names the controller in logs and metrics.
const ControllerName = "garden-care"

// shortestPause is the pause after the first failure. It grows up to the period of the controller.
const shortestPause = 5 * time.Millisecond

// SetupWithManager adds the controller to the manager. The API server need not serve ManagedResources and Etcds yet: a later reconciliation
// starts their watches.
func (r *Reconciler) SetupWithManager(mgr ctrl.Manager) error {
	built, err := ctrl.NewControllerManagedBy(mgr).
		Named(ControllerName).
		For(&operatorv1alpha1.Garden{}, builder.WithPredicates(gardens())).
		WithOptions(process.ControllerOptions(1, r.deadline(), shortestPause, r.period())).
		Build(conflict.RetryAtOnce(reconcile.AsReconciler(r.Client, r)))
	if err != nil {
		return err
	}
	enqueue := handler.EnqueueRequestsFromMapFunc(r.gardenOf)
	etcds := &unstructured.Unstructured{}
	etcds.SetGroupVersionKind(etcdKind)
	for _, each := range []struct {
		object    client.Object
		kind      schema.GroupKind
		predicate predicate.Predicate
	}{
		{&resourcesv1alpha1.ManagedResource{}, resourcesv1alpha1.SchemeGroupVersion.WithKind("ManagedResource").GroupKind(), changed(relevant)},
		{etcds, etcdKind.GroupKind(), predicate.And(predicate.NewPredicateFuncs(r.isOwn), changed(etcdOf))},
		{&appsv1.Deployment{}, appsv1.SchemeGroupVersion.WithKind("Deployment").GroupKind(), changed(failureOf[*appsv1.Deployment])},
		{&appsv1.StatefulSet{}, appsv1.SchemeGroupVersion.WithKind("StatefulSet").GroupKind(), changed(failureOf[*appsv1.StatefulSet])},
		{&appsv1.DaemonSet{}, appsv1.SchemeGroupVersion.WithKind("DaemonSet").GroupKind(), changed(failureOf[*appsv1.DaemonSet])},
	} {
		r.watches = append(r.watches, late.NewWatch(mgr.GetRESTMapper(), each.kind, func() error {
			return built.Watch(source.Kind(mgr.GetCache(), each.object, enqueue, each.predicate))
		}))
	}
	return nil
}

// Cache restricts the cache for workloads to the namespace of the Garden, because the controller reads and watches no other workloads.
// Labels cannot select the workloads, because operators of other projects create some of them with labels that are not known. The cache
// for Etcds is not restricted: a manager cannot be created with cache options for a kind that the API server does not serve yet.
func Cache(namespace string) map[client.Object]cache.ByObject {
	restricted := cache.ByObject{Namespaces: map[string]cache.Config{namespace: {}}}
	return map[client.Object]cache.ByObject{
		&appsv1.Deployment{}: restricted, &appsv1.StatefulSet{}: restricted, &appsv1.DaemonSet{}: restricted,
	}
}

// gardens selects new Gardens, and Gardens whose reconciliation has just succeeded.
func gardens() predicate.Predicate {
	return predicate.Funcs{
		CreateFunc:  func(event.CreateEvent) bool { return true },
		DeleteFunc:  func(event.DeleteEvent) bool { return false },
		GenericFunc: func(event.GenericEvent) bool { return false },
		UpdateFunc: func(e event.UpdateEvent) bool {
			old, wasGarden := e.ObjectOld.(*operatorv1alpha1.Garden)
			updated, isGarden := e.ObjectNew.(*operatorv1alpha1.Garden)
			return wasGarden && isGarden && hasSucceeded(old.Status.LastOperation, updated.Status.LastOperation)
		},
	}
}

func hasSucceeded(old, updated *operatorv1alpha1.LastOperation) bool {
	return old != nil && updated != nil &&
		old.Type != operatorv1alpha1.LastOperationDelete && updated.Type != operatorv1alpha1.LastOperationDelete &&
		old.State == operatorv1alpha1.LastOperationProcessing && updated.State == operatorv1alpha1.LastOperationSucceeded
}

// changed selects the events of objects that are created or deleted, and of updates that change the part of an object that the checks read.
func changed[T client.Object, P comparable](part func(T) P) predicate.Predicate {
	return predicate.Funcs{
		GenericFunc: func(event.GenericEvent) bool { return false },
		UpdateFunc: func(e event.UpdateEvent) bool {
			old, wasKind := e.ObjectOld.(T)
			updated, isKind := e.ObjectNew.(T)
			return wasKind && isKind && part(old) != part(updated)
		},
	}
}

// failureOf returns why a workload is not healthy, "" if it is healthy.
func failureOf[T client.Object](workload T) string { return health.Judge(workload).Unhealthy }

// relevantConditions are the fields of the conditions of a ManagedResource that the checks read. Times are left out.
type relevantConditions [len(judgedConditions)]struct {
	status          corev1beta1.ConditionStatus
	reason, message string
}

func relevant(mr *resourcesv1alpha1.ManagedResource) relevantConditions {
	var found relevantConditions
	for i, wanted := range judgedConditions {
		if each := corev1beta1.GetCondition(mr.Status.Conditions, wanted); each != nil {
			found[i].status, found[i].reason, found[i].message = each.Status, each.Reason, each.Message
		}
	}
	return found
}

// isOwn reports whether an object is in the namespace of the Garden.
func (r *Reconciler) isOwn(o client.Object) bool { return o.GetNamespace() == r.Namespace }

// gardenOf returns a request for the Garden. It returns no request while the operator reconciles or deletes the Garden, because changes
// are expected then. The end of a successful reconciliation triggers a request.
func (r *Reconciler) gardenOf(ctx context.Context, _ client.Object) []reconcile.Request {
	list := &operatorv1alpha1.GardenList{}
	if err := r.Client.List(ctx, list, client.Limit(1)); err != nil {
		log.FromContext(ctx).Error(err, "Cannot list gardens")
		return nil
	}
	if len(list.Items) == 0 {
		return nil
	}
	garden := list.Items[0]
	if last := garden.Status.LastOperation; last != nil && last.State == operatorv1alpha1.LastOperationProcessing {
		return nil
	}
	return []reconcile.Request{{NamespacedName: types.NamespacedName{Name: garden.Name}}}
}
