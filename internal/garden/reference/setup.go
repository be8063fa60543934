package reference

import (
	"time"

	"k8s.io/apimachinery/pkg/util/sets"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/builder"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/event"
	"sigs.k8s.io/controller-runtime/pkg/predicate"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"

	operatorv1alpha1 "github.com/espalier-dev/espalier/api/operator/v1alpha1"
	"github.com/espalier-dev/espalier/internal/conflict"
	"github.com/espalier-dev/espalier/internal/process"
)

// Names of the controllers in logs and metrics.
const (
	ControllerName           = "reference"
	ExtensionsControllerName = "extension-reference"
)

const (
	// The pause after a failure grows from shortestPause to longestPause. The controller watches no Secrets. If a Secret was missing, the
	// controller finds the created Secret only after such a pause.
	shortestPause = 100 * time.Millisecond
	longestPause  = time.Minute
)

// SetupWithManager adds the controller to the manager.
func (r *Reconciler) SetupWithManager(mgr ctrl.Manager) error {
	return ctrl.NewControllerManagedBy(mgr).
		Named(ControllerName).
		For(&operatorv1alpha1.Garden{}, builder.WithPredicates(relevant(Of))).
		WithOptions(process.ControllerOptions(1, process.Deadline, shortestPause, longestPause)).
		Complete(conflict.RetryAtOnce(reconcile.AsReconciler(r.Client, r)))
}

// SetupWithManager adds the controller to the manager.
func (r *Extensions) SetupWithManager(mgr ctrl.Manager) error {
	return ctrl.NewControllerManagedBy(mgr).
		Named(ExtensionsControllerName).
		For(&operatorv1alpha1.Extension{}, builder.WithPredicates(relevant(OfExtension))).
		WithOptions(process.ControllerOptions(1, process.Deadline, shortestPause, longestPause)).
		Complete(conflict.RetryAtOnce(reconcile.AsReconciler(r.Client, r)))
}

// relevant selects new owners, owners whose references have changed, and owners in deletion that still have the finalizer.
func relevant[T client.Object](of func(T) sets.Set[Name]) predicate.Predicate {
	return predicate.Funcs{
		CreateFunc:  func(event.CreateEvent) bool { return true },
		DeleteFunc:  func(event.DeleteEvent) bool { return false },
		GenericFunc: func(event.GenericEvent) bool { return false },
		UpdateFunc: func(e event.UpdateEvent) bool {
			old, wasOwner := e.ObjectOld.(T)
			updated, isOwner := e.ObjectNew.(T)
			if !wasOwner || !isOwner {
				return false
			}
			return !of(old).Equal(of(updated)) || updated.GetDeletionTimestamp() != nil && isProtected(updated)
		},
	}
}
