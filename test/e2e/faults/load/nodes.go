package load

import (
	"context"
	"errors"
	"strconv"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

const criticalTaint = "node.gardener.cloud/critical-components-not-ready"

// nodes are Nodes without a kubelet and without Pods that get the taint again with each revision. All critical components count as ready on
// them.
type nodes struct{ base }

func (n *nodes) create(ctx context.Context) error {
	return n.createEach(ctx, func(name string) client.Object {
		return &corev1.Node{
			ObjectMeta: metav1.ObjectMeta{Name: name, Labels: map[string]string{marker: n.namespace}},
			Spec:       corev1.NodeSpec{Unschedulable: true},
		}
	})
}

// change updates the version that it has read, because other clients also write the list of taints.
func (n *nodes) change(ctx context.Context, lane string, to int) error {
	node := &corev1.Node{}
	if err := n.cluster.Client.Get(ctx, client.ObjectKey{Name: lane}, node); err != nil {
		return err
	}
	taints := []corev1.Taint{{Key: criticalTaint, Value: strconv.Itoa(to), Effect: corev1.TaintEffectNoSchedule}}
	for _, taint := range node.Spec.Taints {
		if taint.Key != criticalTaint {
			taints = append(taints, taint)
		}
	}
	return n.patch(ctx, node, map[string]any{
		"metadata": map[string]any{"resourceVersion": node.ResourceVersion, "annotations": map[string]string{marker: strconv.Itoa(to)}},
		"spec":     map[string]any{"taints": taints},
	})
}

func (n *nodes) arrived(ctx context.Context) (map[string]int, error) {
	found := &corev1.NodeList{}
	if err := n.cluster.Client.List(ctx, found, client.MatchingLabels{marker: n.namespace}); err != nil {
		return nil, err
	}
	arrived := map[string]int{}
	for _, node := range found.Items {
		value, err := strconv.Atoi(node.Annotations[marker])
		for _, taint := range node.Spec.Taints {
			if taint.Key == criticalTaint {
				err = errors.New("it is still tainted")
			}
		}
		if err != nil {
			value = -1
		}
		arrived[node.Name] = value
	}
	return arrived, nil
}

func (n *nodes) remove(ctx context.Context) error { return n.deleteMarked(ctx, &corev1.Node{}) }
