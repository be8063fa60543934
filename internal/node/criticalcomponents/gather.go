package criticalcomponents

import (
	"context"
	"fmt"

	"golang.org/x/sync/errgroup"
	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	storagev1 "k8s.io/api/storage/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	resourcesv1alpha1 "github.com/espalier-dev/espalier/api/resources/v1alpha1"
)

// gather reads the objects for which a Node may wait, in the given namespaces; "" stands for all.
func gather(
	ctx context.Context, from client.Reader, namespaces []string, node *corev1.Node, required []types.NamespacedName,
) (facts, error) {
	f := facts{node: node, required: required}
	for _, namespace := range namespaces {
		daemonSets, pods, err := list(ctx, from, namespace, node)
		if err != nil {
			return facts{}, err
		}
		f.daemonSets = append(f.daemonSets, daemonSets.Items...)
		f.pods = append(f.pods, pods.Items...)
	}
	if len(requiredDrivers(f.pods)) == 0 {
		return f, nil
	}
	csiNode := &storagev1.CSINode{}
	err := from.Get(ctx, client.ObjectKey{Name: node.Name}, csiNode)
	if err == nil {
		f.csiNode = csiNode
	} else if !apierrors.IsNotFound(err) {
		return facts{}, fmt.Errorf("failed getting existing drivers from CSINode object for node: %w", err)
	}
	return f, nil
}

// list reads DaemonSets and Pods concurrently: API servers may need up to a tenth of a second for each request, to make sure that their own
// caches are up to date.
func list(ctx context.Context, from client.Reader, namespace string, node *corev1.Node) (*appsv1.DaemonSetList, *corev1.PodList, error) {
	critical := client.MatchingLabels{resourcesv1alpha1.CriticalComponent: resourcesv1alpha1.CriticalComponentValue}
	daemonSets, pods := &appsv1.DaemonSetList{}, &corev1.PodList{}
	group := errgroup.Group{}
	group.Go(func() error {
		if err := from.List(ctx, daemonSets, client.InNamespace(namespace), critical); err != nil {
			return fmt.Errorf("list node-critical DaemonSets: %w", err)
		}
		return nil
	})
	group.Go(func() error {
		if err := from.List(ctx, pods, client.InNamespace(namespace), critical, client.MatchingFields{podsByNode: node.Name}); err != nil {
			return fmt.Errorf("list node-critical Pods of Node %q: %w", node.Name, err)
		}
		return nil
	})
	return daemonSets, pods, group.Wait()
}
