package secret

import (
	"context"

	"k8s.io/apimachinery/pkg/types"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/controller"
	"sigs.k8s.io/controller-runtime/pkg/event"
	"sigs.k8s.io/controller-runtime/pkg/handler"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"

	resourcesv1alpha1 "github.com/espalier-dev/espalier/api/resources/v1alpha1"
	"github.com/espalier-dev/espalier/internal/process"
)

// ControllerName names the controller in logs and metrics.
const ControllerName = "secret"

// SetupWithManager adds the controller to the manager of the source cluster.
func (r *Reconciler) SetupWithManager(mgr ctrl.Manager, workers int) error {
	return ctrl.NewControllerManagedBy(mgr).
		Named(ControllerName).
		WatchesRawSource(r.Secrets.Carriers()).
		Watches(&resourcesv1alpha1.ManagedResource{}, handler.Funcs{UpdateFunc: r.setUpdated}).
		WithOptions(controller.Options{MaxConcurrentReconciles: workers, ReconciliationTimeout: process.Deadline}).
		Complete(r)
}

// setUpdated enqueues the Secrets that a changed set references, if they carry the finalizer. So the controller retries the removal of a
// finalizer before the back-off ends. A new set needs no such handler: Secrets with the finalizer are already in the queue.
func (r *Reconciler) setUpdated(_ context.Context, e event.UpdateEvent, queue process.Queue) {
	for _, name := range referenced(e.ObjectOld, e.ObjectNew) {
		if r.Secrets.Carries(name) {
			queue.Add(reconcile.Request{NamespacedName: name})
		}
	}
}

// referenced lists the Secrets that a set references before or after a change of its spec; none if the spec has not changed.
func referenced(before, after client.Object) []types.NamespacedName {
	if before.GetGeneration() == after.GetGeneration() {
		return nil
	}
	var found []types.NamespacedName
	for _, object := range []client.Object{before, after} {
		mr, ok := object.(*resourcesv1alpha1.ManagedResource)
		if !ok {
			continue
		}
		for _, ref := range mr.Spec.SecretRefs {
			if ref.Name != "" {
				found = append(found, types.NamespacedName{Namespace: mr.Namespace, Name: ref.Name})
			}
		}
	}
	return found
}
