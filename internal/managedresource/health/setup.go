package health

import (
	"context"
	"time"

	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/builder"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/event"
	"sigs.k8s.io/controller-runtime/pkg/predicate"
	"sigs.k8s.io/controller-runtime/pkg/source"

	resourcesv1alpha1 "github.com/espalier-dev/espalier/api/resources/v1alpha1"
	"github.com/espalier-dev/espalier/internal/managedresource/atrest"
	"github.com/espalier-dev/espalier/internal/process"
)

// ControllerName names the controller in logs and metrics.
const ControllerName = "health"

// The pause between attempts for a set that fails grows from shortestPause to longestPause.
const (
	shortestPause = 5 * time.Millisecond
	longestPause  = time.Minute
)

// SetupWithManager adds the controller to the manager of the source cluster.
func (r *Reconciler) SetupWithManager(mgr ctrl.Manager, workers int) error {
	wake := source.Func(func(_ context.Context, queue process.Queue) error {
		r.Verdicts.queue.Store(&queue)
		return nil
	})
	sweep := &atrest.Sweep{Inner: r, AtRest: r.atRest, Period: r.Config.SyncPeriod.Duration, Clock: r.Clock}
	return ctrl.NewControllerManagedBy(mgr).
		Named(ControllerName).
		For(&resourcesv1alpha1.ManagedResource{}, builder.WithPredicates(r.setEvents())).
		WatchesRawSource(wake).
		WatchesRawSource(sweep.Source()).
		WithOptions(process.ControllerOptions(workers, 0, shortestPause, longestPause)).
		Complete(sweep)
}

// setEvents lets an update of a set pass if the update may change the health of the set, or if another client has changed the conditions
// of this controller. It also lets pass that a set appears or disappears. A new set is judged only after it has been applied, which causes
// an update.
func (r *Reconciler) setEvents() predicate.Predicate {
	return predicate.Funcs{
		CreateFunc: func(event.CreateEvent) bool { return true },
		UpdateFunc: func(e event.UpdateEvent) bool {
			before, isSet := e.ObjectOld.(*resourcesv1alpha1.ManagedResource)
			after, isNew := e.ObjectNew.(*resourcesv1alpha1.ManagedResource)
			return isSet && isNew && (mayDiffer(before, after) || overwritten(before, after) && !r.own(after))
		},
		DeleteFunc:  func(event.DeleteEvent) bool { return true }, // so that its data is removed
		GenericFunc: func(event.GenericEvent) bool { return false },
	}
}

// own reports whether this process wrote this version of a set.
func (r *Reconciler) own(mr *resourcesv1alpha1.ManagedResource) bool {
	written, _ := r.Ledger.Concluded(client.ObjectKeyFromObject(mr))
	return written == mr.ResourceVersion
}
