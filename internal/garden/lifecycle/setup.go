package lifecycle

import (
	"context"
	"fmt"
	"slices"
	"time"

	druidcorev1alpha1 "github.com/gardener/etcd-druid/api/core/v1alpha1"
	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	"k8s.io/apimachinery/pkg/runtime"
	clientgoscheme "k8s.io/client-go/kubernetes/scheme"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/event"
	"sigs.k8s.io/controller-runtime/pkg/handler"
	"sigs.k8s.io/controller-runtime/pkg/log"
	"sigs.k8s.io/controller-runtime/pkg/predicate"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"
	"sigs.k8s.io/controller-runtime/pkg/source"

	operatorv1alpha1 "github.com/espalier-dev/espalier/api/operator/v1alpha1"
	resourcesv1alpha1 "github.com/espalier-dev/espalier/api/resources/v1alpha1"
	"github.com/espalier-dev/espalier/internal/conflict"
	"github.com/espalier-dev/espalier/internal/garden/rotation"
	"github.com/espalier-dev/espalier/internal/process"
)

// ControllerName names the controller in logs and metrics.
const ControllerName = "garden"

// The pause after a failure grows from shortestPause to longestPause.
const (
	shortestPause = 5 * time.Millisecond
	longestPause  = 1000 * time.Second
)

// Scheme returns a scheme with the kinds that the Reconciler reads and writes.
func Scheme() (*runtime.Scheme, error) {
	scheme := runtime.NewScheme()
	for _, add := range []func(*runtime.Scheme) error{
		clientgoscheme.AddToScheme, apiextensionsv1.AddToScheme, druidcorev1alpha1.AddToScheme, operatorv1alpha1.AddToScheme,
		resourcesv1alpha1.AddToScheme,
	} {
		if err := add(scheme); err != nil {
			return nil, fmt.Errorf("build scheme: %w", err)
		}
	}
	return scheme, nil
}

// SetupWithManager adds the controller to the manager. No timeout limits a reconciliation as a whole: its waits have timeouts of their own.
func (r *Reconciler) SetupWithManager(mgr ctrl.Manager) error {
	enqueue := &handler.TypedEnqueueRequestForObject[*operatorv1alpha1.Garden]{}
	err := ctrl.NewControllerManagedBy(mgr).
		Named(ControllerName).
		WatchesRawSource(source.Kind(mgr.GetCache(), &operatorv1alpha1.Garden{}, enqueue, triggers())).
		WatchesRawSource(source.Kind(mgr.GetCache(), &operatorv1alpha1.Garden{},
			handler.TypedEnqueueRequestsFromMapFunc(remaining(mgr.GetCache())), deletions())).
		WithOptions(process.ControllerOptions(r.Workers, 0, shortestPause, longestPause)).
		Complete(conflict.RetryAtOnce(r))
	if err != nil {
		return fmt.Errorf("add controller %s: %w", ControllerName, err)
	}
	return nil
}

// remaining returns a function that requests the reconciliation of the Gardens that remain when a Garden is gone: as long as there were
// several, none was reconciled.
func remaining(gardens client.Reader) handler.TypedMapFunc[*operatorv1alpha1.Garden, reconcile.Request] {
	return func(ctx context.Context, _ *operatorv1alpha1.Garden) (requests []reconcile.Request) {
		left := &operatorv1alpha1.GardenList{}
		if err := gardens.List(ctx, left); err != nil {
			log.FromContext(ctx).Error(err, "Could not list the Gardens that are left")
		}
		for i := range left.Items {
			requests = append(requests, reconcile.Request{NamespacedName: client.ObjectKeyFromObject(&left.Items[i])})
		}
		return requests
	}
}

// deletions selects the events of Gardens that are gone.
func deletions() predicate.TypedFuncs[*operatorv1alpha1.Garden] {
	return predicate.TypedFuncs[*operatorv1alpha1.Garden]{
		CreateFunc:  func(event.TypedCreateEvent[*operatorv1alpha1.Garden]) bool { return false },
		UpdateFunc:  func(event.TypedUpdateEvent[*operatorv1alpha1.Garden]) bool { return false },
		DeleteFunc:  func(event.TypedDeleteEvent[*operatorv1alpha1.Garden]) bool { return true },
		GenericFunc: func(event.TypedGenericEvent[*operatorv1alpha1.Garden]) bool { return false },
	}
}

// triggeringAnnotations are annotations whose changes trigger a reconciliation. The annotation with operations is not in this list,
// because the function triggers reads the value of that annotation.
var triggeringAnnotations = []string{
	operatorv1alpha1.AnnotationPausedUntil, operatorv1alpha1.AnnotationAbandonVirtualCluster, operatorv1alpha1.AnnotationConfirmLostKeys,
	operatorv1alpha1.AnnotationConfirmLostResources, operatorv1alpha1.AnnotationConfirmLostBackups, operatorv1alpha1.AnnotationConfirmLostLogs,
	operatorv1alpha1.AnnotationConfirmLeftovers, operatorv1alpha1.AnnotationSkippedChecks,
	operatorv1alpha1.AnnotationAbortRotation, operatorv1alpha1.AnnotationRestoring,
}

// triggers selects new Gardens, and updates that change the generation, ask for an operation, abort a rotation, change a pause or the
// skipped checks, begin or end a restoration, confirm a loss or leftovers, or give up the virtual cluster.
func triggers() predicate.TypedFuncs[*operatorv1alpha1.Garden] {
	return predicate.TypedFuncs[*operatorv1alpha1.Garden]{
		CreateFunc: func(event.TypedCreateEvent[*operatorv1alpha1.Garden]) bool { return true },
		UpdateFunc: func(e event.TypedUpdateEvent[*operatorv1alpha1.Garden]) bool {
			before, after := e.ObjectOld, e.ObjectNew
			return before.Generation != after.Generation || before.UID != after.UID ||
				rotation.Appeared(before.Annotations[gardenerOperation], after.Annotations[gardenerOperation]) ||
				slices.ContainsFunc(triggeringAnnotations, func(key string) bool { return before.Annotations[key] != after.Annotations[key] })
		},
		DeleteFunc:  func(event.TypedDeleteEvent[*operatorv1alpha1.Garden]) bool { return false },
		GenericFunc: func(event.TypedGenericEvent[*operatorv1alpha1.Garden]) bool { return false },
	}
}
