package lookup

import (
	"cmp"
	"context"
	"maps"
	"slices"
	"sync"
	"sync/atomic"

	corev1 "k8s.io/api/core/v1"
	toolscache "k8s.io/client-go/tools/cache"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

// taints remembers the last answer about Nodes until a Node changes in a relevant way: reading a thousand Nodes for every Pod takes longer
// than the rest of the review.
type taints struct {
	// changes counts additions, deletions and relevant updates of Nodes.
	changes atomic.Uint64

	mu sync.Mutex
	// mu protects the fields below. The field answer is the last answer: for the labels in selector, computed when the counter changes had
	// the value at. The field known is false before the first answer.
	known    bool
	at       uint64
	selector map[string]string
	answer   []corev1.Taint
}

// handler returns an event handler that counts the changes of Nodes that may alter answers. The cache changes before the event handler is
// called. So, after a change is counted, an answer that was computed before the change is never returned.
func (t *taints) handler() toolscache.ResourceEventHandler {
	note := func(any) { t.changes.Add(1) }
	return toolscache.ResourceEventHandlerFuncs{
		AddFunc:    note,
		DeleteFunc: note,
		UpdateFunc: func(before, after any) {
			one, isNode := before.(*corev1.Node)
			two, isNodeToo := after.(*corev1.Node)
			if !isNode || !isNodeToo || !maps.Equal(one.Labels, two.Labels) || !slices.Equal(one.Spec.Taints, two.Spec.Taints) {
				note(after)
			}
		},
	}
}

func (t *taints) cachedAnswer(selector map[string]string) (answer []corev1.Taint, at uint64, known bool) {
	at = t.changes.Load()
	t.mu.Lock()
	defer t.mu.Unlock()
	if !t.known || t.at != at || !maps.Equal(t.selector, selector) {
		return nil, at, false
	}
	return slices.Clone(t.answer), at, true
}

func (t *taints) cacheAnswer(selector map[string]string, answer []corev1.Taint, at uint64) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.known, t.at, t.selector, t.answer = true, at, maps.Clone(selector), slices.Clone(answer)
}

// For webhooks.systemComponentsConfig, which adds tolerations for the taints of the Nodes for system components.
// +kubebuilder:rbac:groups="",resources=nodes,verbs=list;watch,roleName=espalier-webhook-server-target

// Taints returns the taints of all Nodes that have the labels, sorted, without duplicates and without the time at which they were added.
func (l *Lookups) Taints(ctx context.Context, selector map[string]string) ([]corev1.Taint, error) {
	synced := l.synced(nodes)
	answer, at, known := l.taints.cachedAnswer(selector)
	if synced && known {
		return answer, nil
	}
	list := &corev1.NodeList{}
	if !synced || l.cached.List(ctx, list, client.MatchingLabels(selector)) != nil {
		if err := l.live.List(ctx, list, client.MatchingLabels(selector)); err != nil {
			return nil, err
		}
	}
	answer = distinct(list.Items)
	if synced {
		l.taints.cacheAnswer(selector, answer, at)
	}
	return answer, nil
}

// distinct returns the taints of all Nodes, sorted, without duplicates.
func distinct(nodes []corev1.Node) []corev1.Taint {
	found := map[corev1.Taint]struct{}{}
	for i := range nodes {
		for _, taint := range nodes[i].Spec.Taints {
			found[corev1.Taint{Key: taint.Key, Value: taint.Value, Effect: taint.Effect}] = struct{}{}
		}
	}
	return slices.SortedFunc(maps.Keys(found), func(a, b corev1.Taint) int {
		return cmp.Or(cmp.Compare(a.Key, b.Key), cmp.Compare(a.Value, b.Value), cmp.Compare(a.Effect, b.Effect))
	})
}
