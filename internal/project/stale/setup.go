package stale

import (
	"context"

	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/controller"
	"sigs.k8s.io/controller-runtime/pkg/event"
	"sigs.k8s.io/controller-runtime/pkg/handler"
	"sigs.k8s.io/controller-runtime/pkg/log"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"

	corev1beta1 "github.com/espalier-dev/espalier/api/core/v1beta1"
	"github.com/espalier-dev/espalier/internal/conflict"
	"github.com/espalier-dev/espalier/internal/process"
	"github.com/espalier-dev/espalier/internal/project/index"
)

// ControllerName names the controller in logs and metrics.
const ControllerName = "project-stale"

// SetupWithManager adds the controller to the manager. The Tracker must not run yet.
func (r *Reconciler) SetupWithManager(mgr ctrl.Manager, workers int) error {
	r.registerMetrics()
	r.Served.OnChange(r.enqueueUndecided)
	return ctrl.NewControllerManagedBy(mgr).
		Named(ControllerName).
		For(&corev1beta1.Project{}).
		Watches(newNamespace(), handler.Funcs{
			UpdateFunc: func(ctx context.Context, e event.UpdateEvent, q process.Queue) {
				r.exemptionChanged(ctx, e.ObjectOld, e.ObjectNew, q)
			},
		}).
		WatchesRawSource(r.again.Source()).
		WithOptions(controller.Options{
			MaxConcurrentReconciles: workers,
			ReconciliationTimeout:   min(process.Deadline, r.Rules.SyncPeriod),
		}).
		Complete(conflict.RetryAtOnce(r))
}

// exemptionChanged enqueues the Project of a namespace whose exemption was added, changed or removed. Annotations that exist at the start
// need no event: the first pass reads them.
func (r *Reconciler) exemptionChanged(ctx context.Context, before, after client.Object, q process.Queue) {
	const skip = corev1beta1.AnnotationSkipStaleCheck
	if before.GetAnnotations()[skip] == after.GetAnnotations()[skip] {
		return
	}
	project, err := index.Find(ctx, r.Client, after.GetName())
	switch {
	case err != nil:
		log.FromContext(ctx).Error(err, "Could not find the project whose exemption has changed; its next check reads the exemption",
			"namespace", after.GetName())
	case project != nil:
		q.Add(reconcile.Request{NamespacedName: client.ObjectKeyFromObject(project)})
	}
}
