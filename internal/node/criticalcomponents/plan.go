package criticalcomponents

import (
	"encoding/json"
	"fmt"
	"slices"

	corev1 "k8s.io/api/core/v1"

	resourcesv1alpha1 "github.com/espalier-dev/espalier/api/resources/v1alpha1"
)

// tainted tells whether the Node waits. Value and effect of the taint do not count.
func tainted(node *corev1.Node) bool { return slices.ContainsFunc(node.Spec.Taints, isOurs) }

func isOurs(taint corev1.Taint) bool {
	return taint.Key == resourcesv1alpha1.CriticalComponentsNotReady
}

// operation is one step of a JSON patch.
type operation struct {
	Op   string `json:"op"`
	Path string `json:"path"`
	// Value of nil is left out; that of a test for what must not be there is absent.
	Value any `json:"value,omitempty"`
}

// absent is null, for tests: the API server encodes no empty labels and values.
func absent() any { return json.RawMessage("null") }

// removal returns a JSON patch that removes our taint from exactly the Node on which the decision was made, with the labels
// and the taints that say which DaemonSets belong there: it fails if the Node was replaced by another of the same name, or
// if a label was changed, or a taint removed or replaced since. Other changes, such as the kubelet's frequent reports, do
// not disturb it, which a precondition on the resource version would; and taints that others add meanwhile stay: no more
// DaemonSets belong there because of them.
func removal(node *corev1.Node) ([]byte, error) {
	labels := absent()
	if len(node.Labels) > 0 {
		labels = node.Labels
	}
	operations := []operation{
		{Op: "test", Path: "/metadata/uid", Value: string(node.UID)},
		{Op: "test", Path: "/metadata/labels", Value: labels},
	}
	for i, taint := range node.Spec.Taints {
		value := absent()
		if taint.Value != "" {
			value = taint.Value
		}
		operations = append(operations,
			operation{Op: "test", Path: fmt.Sprintf("/spec/taints/%d/key", i), Value: taint.Key},
			operation{Op: "test", Path: fmt.Sprintf("/spec/taints/%d/value", i), Value: value},
			operation{Op: "test", Path: fmt.Sprintf("/spec/taints/%d/effect", i), Value: string(taint.Effect)})
	}
	for i, taint := range slices.Backward(node.Spec.Taints) { // from the end: what is removed moves all that follows
		if isOurs(taint) {
			operations = append(operations, operation{Op: "remove", Path: fmt.Sprintf("/spec/taints/%d", i)})
		}
	}
	patch, err := json.Marshal(operations)
	if err != nil {
		return nil, fmt.Errorf("encode patch: %w", err)
	}
	return patch, nil
}
