// Package cloud does for a local node what cloud providers do for their clusters: it provides volumes, which are folders of the node, and
// gives Services of type LoadBalancer an address, which kube-proxy serves on the node.
package cloud

import (
	"context"
	"fmt"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/client-go/rest"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"
	metricsserver "sigs.k8s.io/controller-runtime/pkg/metrics/server"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"
)

// Run provides volumes in a folder, which must be absolute, and addresses of Services, until the context ends.
func Run(ctx context.Context, config *rest.Config, folder string) error {
	mgr, err := ctrl.NewManager(config, ctrl.Options{Metrics: metricsserver.Options{BindAddress: "0"}})
	if err != nil {
		return fmt.Errorf("create manager: %w", err)
	}
	c := mgr.GetClient()
	for kind, r := range map[client.Object]reconcile.Reconciler{
		&corev1.PersistentVolumeClaim{}: reconcile.AsReconciler(c, &claims{client: c, folder: folder}),
		&corev1.PersistentVolume{}:      reconcile.AsReconciler(c, &volumes{client: c, folder: folder}),
		&corev1.Service{}:               reconcile.AsReconciler(c, &services{client: c}),
	} {
		if err := ctrl.NewControllerManagedBy(mgr).For(kind).Complete(r); err != nil {
			return fmt.Errorf("add controller of %T: %w", kind, err)
		}
	}
	return mgr.Start(ctx)
}
