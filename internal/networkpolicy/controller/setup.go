package controller

import (
	"context"
	"fmt"
	"time"

	corev1 "k8s.io/api/core/v1"
	networkingv1 "k8s.io/api/networking/v1"
	"k8s.io/client-go/util/workqueue"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/cluster"
	"sigs.k8s.io/controller-runtime/pkg/controller"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"
	"sigs.k8s.io/controller-runtime/pkg/source"

	resourcesv1alpha1 "github.com/espalier-dev/espalier/api/resources/v1alpha1"
	"github.com/espalier-dev/espalier/internal/networkpolicy/desired"
)

// ControllerName names the controller in logs and metrics.
const ControllerName = "networkpolicy"

const namespaceSelectors = resourcesv1alpha1.NetworkingNamespaceSelectors

// The pause after a failure grows from shortestPause to longestPause.
const (
	shortestPause = 5 * time.Millisecond
	longestPause  = time.Minute
)

// timeout limits one reconciliation.
const timeout = 3 * time.Minute

// SetupWithManager adds the controller to the manager of the source cluster. It watches the target cluster.
func (r *Reconciler) SetupWithManager(ctx context.Context, mgr ctrl.Manager, target cluster.Cluster, workers int) error {
	if err := target.GetFieldIndexer().IndexField(ctx, &networkingv1.NetworkPolicy{}, serviceIndex, serviceOf); err != nil {
		return fmt.Errorf("index NetworkPolicies by Service: %w", err)
	}
	caches := target.GetCache()
	b := ctrl.NewControllerManagedBy(mgr).
		Named(ControllerName).
		WatchesRawSource(source.Kind(caches, &corev1.Service{}, onEvent(r.serviceEvent))).
		WatchesRawSource(source.Kind(caches, newNamespace(), onEvent(r.namespaceEvent))).
		WatchesRawSource(source.Kind(caches, &networkingv1.NetworkPolicy{}, r.policyEvents()))
	if r.IngressController != nil {
		b = b.WatchesRawSource(source.Kind(caches, &networkingv1.Ingress{}, onEvent(r.ingressEvent)))
	}
	return b.WithOptions(options(workers)).Complete(r)
}

func options(workers int) controller.Options {
	return controller.Options{
		MaxConcurrentReconciles: workers,
		ReconciliationTimeout:   timeout,
		RateLimiter:             workqueue.NewTypedItemExponentialFailureRateLimiter[reconcile.Request](shortestPause, longestPause),
	}
}

// serviceOf is the index function of policies.
func serviceOf(object client.Object) []string {
	policy, ok := object.(*networkingv1.NetworkPolicy)
	if !ok {
		return nil
	}
	owner, owned := desired.Owner(policy)
	if !owned {
		return nil
	}
	return []string{owner.String()}
}
