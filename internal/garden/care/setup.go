package care

import (
	"context"
	"fmt"
	"sync"
	"time"

	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/apimachinery/pkg/types"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/builder"
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
	"github.com/espalier-dev/espalier/internal/process"
)

// ControllerName names the controller in logs and metrics.
const ControllerName = "garden-care"

// shortestPause is the pause after the first failure. It grows up to the period of the controller.
const shortestPause = 5 * time.Millisecond

// SetupWithManager adds the controller to the manager. ManagedResources need not be served yet.
func (r *Reconciler) SetupWithManager(mgr ctrl.Manager) error {
	built, err := ctrl.NewControllerManagedBy(mgr).
		Named(ControllerName).
		For(&operatorv1alpha1.Garden{}, builder.WithPredicates(gardens())).
		WithOptions(process.ControllerOptions(1, r.deadline(), shortestPause, r.period())).
		Build(conflict.RetryAtOnce(reconcile.AsReconciler(r.Client, r)))
	if err != nil {
		return err
	}
	r.watch = lateWatch{
		served: func() error {
			_, err := mgr.GetRESTMapper().RESTMapping(resourcesv1alpha1.SchemeGroupVersion.WithKind("ManagedResource").GroupKind())
			return err
		},
		start: func() error {
			return built.Watch(source.Kind(mgr.GetCache(), client.Object(&resourcesv1alpha1.ManagedResource{}),
				handler.EnqueueRequestsFromMapFunc(r.gardenOf), managedResources()))
		},
	}
	return nil
}

// lateWatch begins to watch a kind as soon as the API server serves it. The operator itself creates the CRD of ManagedResources, and a
// watch of a kind that is not served would end the process. The zero value never watches. A restart begins anew.
type lateWatch struct {
	served func() error
	start  func() error

	mu      sync.Mutex // guards started
	started bool
}

// begin starts the watch if the kind is served now. Every run of the controller calls it.
func (w *lateWatch) begin() error {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.started || w.served == nil {
		return nil
	}
	if err := w.served(); err != nil {
		if meta.IsNoMatchError(err) {
			return nil
		}
		return fmt.Errorf("ask whether managed resources are served: %w", err)
	}
	if err := w.start(); err != nil {
		return fmt.Errorf("watch managed resources: %w", err)
	}
	w.started = true
	return nil
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

// managedResources selects ManagedResources that appear, disappear, or whose conditions change.
func managedResources() predicate.Predicate {
	return predicate.Funcs{
		GenericFunc: func(event.GenericEvent) bool { return false },
		UpdateFunc: func(e event.UpdateEvent) bool {
			old, wasManaged := e.ObjectOld.(*resourcesv1alpha1.ManagedResource)
			updated, isManaged := e.ObjectNew.(*resourcesv1alpha1.ManagedResource)
			return wasManaged && isManaged && relevant(old) != relevant(updated)
		},
	}
}

// relevantConditions are what the checks read of the conditions of a ManagedResource, without times.
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

// gardenOf returns the Garden, unless the operator works on it: a change then is expected, and the end of the operation triggers a run.
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
