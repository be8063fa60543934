// Package cloud does for a local node what cloud providers do for their clusters: it provides volumes, which are folders of the node, and
// gives Services of type LoadBalancer an address, which kube-proxy serves on the node. It also gives users of this machine access to the
// virtual cluster of a garden: a port of the gateway, and a kubeconfig.
package cloud

import (
	"context"
	"fmt"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/client-go/rest"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/cache"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/manager"
	metricsserver "sigs.k8s.io/controller-runtime/pkg/metrics/server"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"
)

// Files are the places of what is provided. They must be absolute.
type Files struct {
	// Volumes is the folder of volumes, and Kubeconfig the file for users of the virtual cluster.
	Volumes, Kubeconfig string
}

// Run provides volumes, addresses of Services, and access to the virtual cluster, until the context ends.
func Run(ctx context.Context, config *rest.Config, files Files) error {
	mgr, err := ctrl.NewManager(config, ctrl.Options{
		Metrics: metricsserver.Options{BindAddress: "0"},
		Cache:   cache.Options{ByObject: map[client.Object]cache.ByObject{&corev1.Secret{}: onlyAccess()}},
	})
	if err != nil {
		return fmt.Errorf("create manager: %w", err)
	}
	c := mgr.GetClient()
	for kind, r := range map[client.Object]reconcile.Reconciler{
		&corev1.PersistentVolumeClaim{}: reconcile.AsReconciler(c, &claims{client: c, folder: files.Volumes}),
		&corev1.PersistentVolume{}:      reconcile.AsReconciler(c, &volumes{client: c, folder: files.Volumes}),
		&corev1.Service{}:               reconcile.AsReconciler(c, &services{client: c}),
		&corev1.Secret{}:                reconcile.AsReconciler(c, &access{file: files.Kubeconfig}),
	} {
		if err := ctrl.NewControllerManagedBy(mgr).For(kind).Complete(r); err != nil {
			return fmt.Errorf("add controller of %T: %w", kind, err)
		}
	}
	if err := mgr.Add(manager.RunnableFunc(forwardGateway(c))); err != nil {
		return fmt.Errorf("add forwarder: %w", err)
	}
	return mgr.Start(ctx)
}
