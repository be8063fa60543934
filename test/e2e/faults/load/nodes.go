package load

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"strconv"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

const criticalTaint = "node.gardener.cloud/critical-components-not-ready"

// nodes are Nodes without a kubelet and without Pods that get the taint again with each revision. All critical components count as ready on
// them.
type nodes struct{ base }

func (n *nodes) title() string        { return "Node" }
func (n *nodes) pause() time.Duration { return time.Second }
func (n *nodes) lanes() []string      { return numbered("load-"+n.suffix+"-", 2) }

func (n *nodes) create(ctx context.Context) error {
	for _, name := range n.lanes() {
		node := &corev1.Node{
			ObjectMeta: metav1.ObjectMeta{Name: name, Labels: map[string]string{marker: n.namespace}},
			Spec:       corev1.NodeSpec{Unschedulable: true},
		}
		if err := client.IgnoreAlreadyExists(n.cluster.Client.Create(ctx, node)); err != nil {
			return err
		}
	}
	return nil
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
	patch, err := json.Marshal(map[string]any{
		"metadata": map[string]any{"resourceVersion": node.ResourceVersion, "annotations": map[string]string{marker: strconv.Itoa(to)}},
		"spec":     map[string]any{"taints": taints},
	})
	if err != nil {
		return err
	}
	return n.cluster.Client.Patch(ctx, node, client.RawPatch(types.MergePatchType, patch))
}

func (n *nodes) list(ctx context.Context) ([]corev1.Node, error) {
	found := &corev1.NodeList{}
	err := n.cluster.Client.List(ctx, found, client.MatchingLabels{marker: n.namespace})
	return found.Items, err
}

func (n *nodes) arrived(ctx context.Context) (map[string]int, error) {
	found, err := n.list(ctx)
	if err != nil {
		return nil, err
	}
	arrived := map[string]int{}
	for _, node := range found {
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

func (n *nodes) unsettled(context.Context) ([]string, error) { return nil, nil }

func (n *nodes) remove(ctx context.Context) error {
	err := n.cluster.Client.DeleteAllOf(ctx, &corev1.Node{}, client.MatchingLabels{marker: n.namespace})
	if err != nil {
		return fmt.Errorf("delete Nodes: %w", err)
	}
	return nil
}
