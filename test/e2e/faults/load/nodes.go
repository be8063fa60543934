package load

import (
	"context"
	"slices"
	"strconv"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

const criticalTaint = "node.gardener.cloud/critical-components-not-ready"

// nodes are Nodes without a kubelet and without Pods. With each revision they get the taint again. All critical components on them count as
// ready.
type nodes struct{ base }

func (n *nodes) create(ctx context.Context) error {
	return n.createEach(ctx, func(name string) client.Object {
		return &corev1.Node{
			ObjectMeta: metav1.ObjectMeta{Name: name, Labels: map[string]string{marker: n.namespace}},
			Spec:       corev1.NodeSpec{Unschedulable: true},
		}
	})
}

func isCritical(taint corev1.Taint) bool { return taint.Key == criticalTaint }

// change updates the version of the Node that it has read, because other clients also write the list of taints.
func (n *nodes) change(ctx context.Context, lane string, to int) error {
	node := &corev1.Node{}
	if err := n.cluster.Client.Get(ctx, client.ObjectKey{Name: lane}, node); err != nil {
		return err
	}
	taints := append(slices.DeleteFunc(node.Spec.Taints, isCritical),
		corev1.Taint{Key: criticalTaint, Value: strconv.Itoa(to), Effect: corev1.TaintEffectNoSchedule})
	return n.patch(ctx, node, map[string]any{
		"metadata": map[string]any{"resourceVersion": node.ResourceVersion, "annotations": map[string]string{marker: strconv.Itoa(to)}},
		"spec":     map[string]any{"taints": taints},
	})
}

func (n *nodes) results(ctx context.Context) (arrived map[string]int, unsettled []string, err error) {
	found := &corev1.NodeList{}
	err = n.cluster.Client.List(ctx, found, client.MatchingLabels{marker: n.namespace})
	return revisions(found.Items, func(node corev1.Node) (lane, revision string) {
		if slices.ContainsFunc(node.Spec.Taints, isCritical) {
			return node.Name, "not ready"
		}
		return node.Name, node.Annotations[marker]
	}), nil, err
}
