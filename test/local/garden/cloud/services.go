package cloud

import (
	"context"
	"fmt"
	"net/netip"

	corev1 "k8s.io/api/core/v1"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"
)

// services sets the status of Services.
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

// addressOf returns the address of the load balancer for the address of a Service: both networks have 16 bits for Services.
func addressOf(clusterIP string) (string, error) {
	ip, err := netip.ParseAddr(clusterIP)
	if err != nil || !ip.Is4() {
		return "", fmt.Errorf("the address %q of the Service is none of IPv4", clusterIP)
	}
	bytes := ip.As4()
	return netip.AddrFrom4([4]byte{10, 252, bytes[2], bytes[3]}).String(), nil
}
