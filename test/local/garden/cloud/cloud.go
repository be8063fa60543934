// Package cloud replaces a cloud provider for a local node: it provides volumes, which are folders of the node, and gives Services of type
// LoadBalancer an address, which kube-proxy serves on the node. It also gives users of this machine access to the virtual cluster of a
// garden, and to Shoots: ports of their gateways, and a kubeconfig of the virtual cluster.
package cloud

import (
	"context"
	"fmt"
	"net/netip"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/client-go/rest"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/cache"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/manager"
	metricsserver "sigs.k8s.io/controller-runtime/pkg/metrics/server"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"
)

// Files are the paths of the volumes and of the kubeconfig. They must be absolute.
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
	for port, namespace := range gateways() {
		if err := mgr.Add(manager.RunnableFunc(forwardGateway(c, port, namespace))); err != nil {
			return fmt.Errorf("add forwarder: %w", err)
		}
	}
	return mgr.Start(ctx)
}

type services struct {
	client client.Client
}

// Reconcile gives a Service of type LoadBalancer an address.
func (r *services) Reconcile(ctx context.Context, service *corev1.Service) (ctrl.Result, error) {
	if service.Spec.Type != corev1.ServiceTypeLoadBalancer || len(service.Status.LoadBalancer.Ingress) > 0 || service.Spec.ClusterIP == "" {
		return ctrl.Result{}, nil
	}
	address, err := addressOf(service.Spec.ClusterIP)
	if err != nil {
		return ctrl.Result{}, reconcile.TerminalError(err)
	}
	before := service.DeepCopy()
	service.Status.LoadBalancer.Ingress = []corev1.LoadBalancerIngress{{IP: address}}
	if err := r.client.Status().Patch(ctx, service, client.MergeFrom(before)); client.IgnoreNotFound(err) != nil {
		return ctrl.Result{}, fmt.Errorf("set status: %w", err)
	}
	return ctrl.Result{}, nil
}

// addressOf returns the address of a Service's load balancer for the cluster IP of the Service: the last 16 bits of both are equal.
func addressOf(clusterIP string) (string, error) {
	ip, err := netip.ParseAddr(clusterIP)
	if err != nil || !ip.Is4() {
		return "", fmt.Errorf("the address %q of the Service is none of IPv4", clusterIP)
	}
	bytes := ip.As4()
	return netip.AddrFrom4([4]byte{10, 252, bytes[2], bytes[3]}).String(), nil
}
