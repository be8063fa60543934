package virtual

import (
	"context"
	"errors"
	"fmt"

	corev1 "k8s.io/api/core/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/espalier-dev/espalier/internal/garden/component/exposure"
	"github.com/espalier-dev/espalier/internal/garden/component/istio"
	"github.com/espalier-dev/espalier/internal/rollout"
)

// The Service of kube-apiserver is deployed, and the Service of the gateway is awaited.
// +kubebuilder:rbac:groups="",resources=services,resourceNames=istio-ingressgateway,verbs=get;watch

// deployService deploys the Service of kube-apiserver, and waits until clients can reach the gateway.
func (w work) deployService(ctx context.Context) error {
	if err := w.DeployTyped(ctx, exposure.Service(w.values)); err != nil {
		return err
	}
	gateway := rollout.Identity(corev1.SchemeGroupVersion.WithKind("Service"), istio.GatewayNamespace, istio.Gateway)
	return w.Until(ctx, w.timing.LoadBalancer, func(ctx context.Context) error {
		live := &corev1.Service{}
		if err := w.Client.Get(ctx, client.ObjectKeyFromObject(gateway), live); err != nil {
			return fmt.Errorf("read Service %s/%s: %w", gateway.GetNamespace(), gateway.GetName(), err)
		}
		if problem := exposure.Problem(live); problem != "" {
			return errors.New(problem)
		}
		return nil
	}, rollout.WatchObject(gateway))
}
