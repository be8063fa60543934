package stale

import (
	"context"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/builder"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/controller"
	"sigs.k8s.io/controller-runtime/pkg/event"
	"sigs.k8s.io/controller-runtime/pkg/handler"
	"sigs.k8s.io/controller-runtime/pkg/log"
	"sigs.k8s.io/controller-runtime/pkg/predicate"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"

	corev1beta1 "github.com/espalier-dev/espalier/api/core/v1beta1"
	"github.com/espalier-dev/espalier/internal/conflict"
	"github.com/espalier-dev/espalier/internal/project/index"
)

// ControllerName names the controller in logs and metrics.
const ControllerName = "project-stale"

// longestDeadline limits one reconciliation.
const longestDeadline = 3 * time.Minute

// SetupWithManager adds the controller to the manager. The Tracker must not run yet.
func (r *Reconciler) SetupWithManager(_ context.Context, mgr ctrl.Manager, workers int) error {
	namespaces := &metav1.PartialObjectMetadata{}
	namespaces.SetGroupVersionKind(corev1.SchemeGroupVersion.WithKind("Namespace"))
	r.Served.OnChange(r.enqueueUndecided)
	return ctrl.NewControllerManagedBy(mgr).
		Named(ControllerName).
		For(&corev1beta1.Project{}).
		Watches(namespaces, handler.EnqueueRequestsFromMapFunc(r.projectOf), builder.WithPredicates(exemptionChanges())).
		WatchesRawSource(r.again.Source()).
		WithOptions(controller.Options{
			MaxConcurrentReconciles: workers,
			ReconciliationTimeout:   min(longestDeadline, r.Rules.SyncPeriod),
		}).
		Complete(conflict.RetryAtOnce(r))
}

// exemptionChanges selects updates of namespaces that add, change or remove the exemption. The first pass sees the annotations that exist
// at the start.
func exemptionChanges() predicate.Funcs {
	return predicate.Funcs{
		CreateFunc:  func(event.CreateEvent) bool { return false },
		DeleteFunc:  func(event.DeleteEvent) bool { return false },
		GenericFunc: func(event.GenericEvent) bool { return false },
		UpdateFunc: func(e event.UpdateEvent) bool {
			const skip = corev1beta1.AnnotationSkipStaleCheck
			return e.ObjectOld.GetAnnotations()[skip] != e.ObjectNew.GetAnnotations()[skip]
		},
	}
}

// projectOf returns the request for the Project of a namespace.
func (r *Reconciler) projectOf(ctx context.Context, namespace client.Object) []reconcile.Request {
	project, err := index.Find(ctx, r.Client, namespace.GetName())
	if err != nil {
		log.FromContext(ctx).Error(err, "Could not tell whose exemption has changed; its next check sees it", "namespace", namespace.GetName())
		return nil
	}
	if project == nil {
		return nil
	}
	return []reconcile.Request{{NamespacedName: client.ObjectKeyFromObject(project)}}
}

// Undecided returns how many Projects could not be judged at their last check.
func (r *Reconciler) Undecided() int { return r.undecided.count() }
