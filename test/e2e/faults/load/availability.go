package load

import (
	"context"
	"fmt"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/espalier-dev/espalier/test/e2e/cluster"
	"github.com/espalier-dev/espalier/test/local"
)

// unavailable returns the binaries whose Deployments have too few replicas, and the Nodes with a kubelet that are not ready.
func (l *Load) unavailable(ctx context.Context) ([]string, error) {
	deployments, found := &appsv1.DeploymentList{}, &corev1.NodeList{}
	if err := l.cluster.Client.List(ctx, deployments, client.InNamespace(cluster.SystemNamespace)); err != nil {
		return nil, fmt.Errorf("list Deployments: %w", err)
	}
	var missing []string
	for _, d := range deployments.Items {
		if err := cluster.Unfinished(&d); err != nil {
			missing = append(missing, fmt.Sprintf("Deployment %s: %v", d.Name, err))
		}
	}
	if err := l.cluster.Client.List(ctx, found); err != nil {
		return nil, fmt.Errorf("list Nodes: %w", err)
	}
	for _, node := range found.Items {
		if _, ours := node.Labels[marker]; !ours && (node.Spec.Unschedulable || local.NodeReady(&node) != nil) {
			missing = append(missing, fmt.Sprintf("Node %s is not ready", node.Name))
		}
	}
	return missing, nil
}
