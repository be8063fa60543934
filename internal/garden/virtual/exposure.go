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
// Objects of Istio lead connections from the gateway to kube-apiserver.
// +kubebuilder:rbac:groups=networking.istio.io,resources=destinationrules;gateways;virtualservices,verbs=get;watch;create;update;delete,namespace=garden,roleName=espalier-garden-operator-garden

// deployService deploys the Service of kube-apiserver, and waits until clients can reach the gateway.
func (c *ControlPlane) deployService(ctx context.Context) error {
	if err := c.Cluster.DeployTyped(ctx, exposure.Service(c.Values)); err != nil {
		return err
	}
	gateway := rollout.Identity(corev1.SchemeGroupVersion.WithKind("Service"), istio.GatewayNamespace, istio.Gateway)
	return c.Cluster.Until(ctx, c.Timing.defaulted().LoadBalancer, func(ctx context.Context) error {
		live := &corev1.Service{}
		if err := c.Cluster.Client.Get(ctx, client.ObjectKeyFromObject(gateway), live); err != nil {
			return fmt.Errorf("read Service %s/%s: %w", gateway.GetNamespace(), gateway.GetName(), err)
		}
		if problem := exposure.Problem(live); problem != "" {
			return errors.New(problem)
		}
		return nil
	}, rollout.WatchObject(gateway))
}
