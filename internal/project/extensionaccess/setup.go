package extensionaccess

import (
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/controller"

	"github.com/espalier-dev/espalier/internal/conflict"
	"github.com/espalier-dev/espalier/internal/process"
)

// ControllerName names the controller in logs and metrics.
const ControllerName = "controllerregistration-extension-clusterrole"

// workers is how many ClusterRoles are reconciled concurrently.
const workers = 5

// SetupWithManager adds the controller to the manager.
func (r *Reconciler) SetupWithManager(mgr ctrl.Manager) error {
	r.watches = newWatches(r.Client, mgr.GetLogger().WithName(ControllerName))
	return ctrl.NewControllerManagedBy(mgr).
		Named(ControllerName).
		WatchesRawSource(r.watches).
		WithOptions(controller.Options{MaxConcurrentReconciles: workers, ReconciliationTimeout: process.Deadline}).
		Complete(conflict.RetryAtOnce(r))
}
