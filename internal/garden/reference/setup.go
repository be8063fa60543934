package reference

import (
	"time"

	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/builder"
	"sigs.k8s.io/controller-runtime/pkg/event"
	"sigs.k8s.io/controller-runtime/pkg/predicate"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"

	operatorv1alpha1 "github.com/espalier-dev/espalier/api/operator/v1alpha1"
	"github.com/espalier-dev/espalier/internal/conflict"
	"github.com/espalier-dev/espalier/internal/process"
)

// ControllerName names the controller in logs and metrics.
const ControllerName = "reference"

const (
	// The pause after a failure grows from shortestPause to longestPause. The controller watches no Secrets, so it finds a Secret that was
	// missing only after such a pause.
	shortestPause = 100 * time.Millisecond
	longestPause  = time.Minute
)

// SetupWithManager adds the controller to the manager.
func (r *Reconciler) SetupWithManager(mgr ctrl.Manager) error {
	return ctrl.NewControllerManagedBy(mgr).
		Named(ControllerName).
		For(&operatorv1alpha1.Garden{}, builder.WithPredicates(relevant())).
		WithOptions(process.ControllerOptions(1, process.Deadline, shortestPause, longestPause)).
		Complete(conflict.RetryAtOnce(reconcile.AsReconciler(r.Client, r)))
}

// relevant selects new Gardens, Gardens whose references have changed, and Gardens in deletion that still have the finalizer.
func relevant() predicate.Predicate {
	return predicate.Funcs{
		CreateFunc:  func(event.CreateEvent) bool { return true },
		DeleteFunc:  func(event.DeleteEvent) bool { return false },
		GenericFunc: func(event.GenericEvent) bool { return false },
		UpdateFunc: func(e event.UpdateEvent) bool {
			old, wasGarden := e.ObjectOld.(*operatorv1alpha1.Garden)
			updated, isGarden := e.ObjectNew.(*operatorv1alpha1.Garden)
			if !wasGarden || !isGarden {
				return false
			}
			return !Of(old).Equal(Of(updated)) || updated.DeletionTimestamp != nil && isProtected(updated)
		},
	}
}
