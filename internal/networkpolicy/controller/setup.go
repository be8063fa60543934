package controller

import (
	"context"
	"fmt"
	"time"

	corev1 "k8s.io/api/core/v1"
	networkingv1 "k8s.io/api/networking/v1"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/cluster"
	"sigs.k8s.io/controller-runtime/pkg/source"

	resourcesv1alpha1 "github.com/espalier-dev/espalier/api/resources/v1alpha1"
	"github.com/espalier-dev/espalier/internal/networkpolicy/desired"
	"github.com/espalier-dev/espalier/internal/process"
)

// ControllerName names the controller in logs and metrics.
const ControllerName = "networkpolicy"

const namespaceSelectors = resourcesv1alpha1.NetworkingNamespaceSelectors

// The pause after a failure grows from shortestPause to longestPause.
const (
	shortestPause = 5 * time.Millisecond
	longestPause  = time.Minute
)

// SetupWithManager adds the controller to the manager of the source cluster. It watches the target cluster.
func (r *Reconciler) SetupWithManager(ctx context.Context, mgr ctrl.Manager, target cluster.Cluster, workers int) error {
	if err := target.GetFieldIndexer().IndexField(ctx, &networkingv1.NetworkPolicy{}, serviceIndex, serviceOf); err != nil {
		return fmt.Errorf("index NetworkPolicies by Service: %w", err)
	}
	caches := target.GetCache()
	b := ctrl.NewControllerManagedBy(mgr).
		Named(ControllerName).
		WatchesRawSource(source.Kind(caches, &corev1.Service{}, process.OnEvent(r.serviceEvent))).
		WatchesRawSource(source.Kind(caches, newNamespace(), process.OnEvent(r.namespaceEvent))).
		WatchesRawSource(source.Kind(caches, &networkingv1.NetworkPolicy{}, r.policyEvents()))
	if r.IngressController != nil {
		b = b.WatchesRawSource(source.Kind(caches, &networkingv1.Ingress{}, process.OnEvent(r.ingressEvent)))
	}
	return b.WithOptions(process.ControllerOptions(workers, process.Deadline, shortestPause, longestPause)).Complete(r)
}

// serviceOf is the index function of policies.
func serviceOf(policy client.Object) []string {
	if owner, owned := desired.Owner(policy); owned {
		return []string{owner.String()}
	}
	return nil
}
