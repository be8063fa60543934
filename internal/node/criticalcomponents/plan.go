package criticalcomponents

import (
	"encoding/json"
	"fmt"
	"slices"

	corev1 "k8s.io/api/core/v1"

	resourcesv1alpha1 "github.com/espalier-dev/espalier/api/resources/v1alpha1"
)

// tainted reports whether the Node has the taint. Value and effect of the taint are ignored.
func tainted(node *corev1.Node) bool { return slices.ContainsFunc(node.Spec.Taints, isOurs) }

func isOurs(taint corev1.Taint) bool {
	return taint.Key == resourcesv1alpha1.CriticalComponentsNotReady
}

// operation is one step of a JSON patch.
type operation struct {
	Op   string `json:"op"`
	Path string `json:"path"`
	// Value is omitted if it is nil; a test for a missing field uses absent.
	Value any `json:"value,omitempty"`
}

// absent is the value null for operations of type test: the API server omits labels and values that are empty.
func absent() any { return json.RawMessage("null") }

// removal returns a JSON patch that removes the taint. It tests that the Node is still the one about which the controller has decided, with
// the same labels, and with the taints that the decision has seen, because these determine which DaemonSets belong on the Node. The patch
// fails if the Node was replaced by another of the same name, if a label was changed, or if a taint was removed or replaced in the
// meantime. Other changes, such as the frequent status updates of the kubelet, do not make it fail, as a precondition on the resource
// version would. Taints that other clients add in the meantime stay: they do not add DaemonSets to the Node.
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
	for i, taint := range slices.Backward(node.Spec.Taints) { // from the end: each removal moves the following ones
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
