package stale

import (
	"context"
	"fmt"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/controller"

	corev1beta1 "github.com/espalier-dev/espalier/api/core/v1beta1"
)

// ControllerName names the controller in logs and metrics.
const ControllerName = "project-stale"

// longestDeadline bounds one look at a Project.
const longestDeadline = 3 * time.Minute

// SetupWithManager adds the controller to the manager. The Tracker must not run yet.
func (r *Reconciler) SetupWithManager(ctx context.Context, mgr ctrl.Manager, workers int) error {
	namespaces := &metav1.PartialObjectMetadata{}
	namespaces.SetGroupVersionKind(corev1.SchemeGroupVersion.WithKind("Namespace"))
	if _, err := mgr.GetCache().GetInformer(ctx, namespaces); err != nil {
		return fmt.Errorf("watch namespaces: %w", err)
	}
	r.Served.OnChange(r.wake)
	return ctrl.NewControllerManagedBy(mgr). //nolint:wrapcheck // the caller names the controller
							Named(ControllerName).
							For(&corev1beta1.Project{}).
							WatchesRawSource(r.again.Source()).
							WithOptions(controller.Options{
			MaxConcurrentReconciles: workers,
			ReconciliationTimeout:   min(longestDeadline, r.Rules.SyncPeriod),
		}).
		Complete(r)
}

// Undecided is how many Projects could not be judged when they were looked at last.
func (r *Reconciler) Undecided() int { return r.held.count() }
