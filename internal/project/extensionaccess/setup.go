package extensionaccess

import (
	"time"

	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/controller"

	"github.com/espalier-dev/espalier/internal/conflict"
)

// ControllerName names the controller in logs and metrics.
const ControllerName = "controllerregistration-extension-clusterrole"

const (
	// workers is how many ClusterRoles are reconciled concurrently.
	workers = 5
	// deadline limits one reconciliation.
	deadline = 3 * time.Minute
)

// SetupWithManager adds the controller to the manager.
func (r *Reconciler) SetupWithManager(mgr ctrl.Manager) error {
	r.watches = newWatches(r.Client, mgr.GetLogger().WithName(ControllerName))
	return ctrl.NewControllerManagedBy(mgr).
		Named(ControllerName).
		WatchesRawSource(r.watches).
		WithOptions(controller.Options{MaxConcurrentReconciles: workers, ReconciliationTimeout: deadline}).
		Complete(conflict.RetryAtOnce(r))
}
