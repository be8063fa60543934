package desired

import (
	"encoding/json"
	"fmt"

	networkingv1 "k8s.io/api/networking/v1"
)

// Replacement returns a strategic merge patch that gives an existing policy the desired spec, labels and annotations. The patch contains
// the argument version as resourceVersion, so the API server refuses it if the policy has changed. Only this type of patch can replace the
// spec and merge labels and annotations in one request.
func Replacement(want *networkingv1.NetworkPolicy, version string) ([]byte, error) {
	data, err := json.Marshal(struct {
		Metadata map[string]any `json:"metadata"`
		Spec     any            `json:"spec"`
	}{
		Metadata: map[string]any{"resourceVersion": version, "labels": want.Labels, "annotations": want.Annotations},
		Spec: struct {
			networkingv1.NetworkPolicySpec `json:",inline"`

			Patch string `json:"$patch"`
		}{want.Spec, "replace"},
	})
	if err != nil {
		return nil, fmt.Errorf("encode patch: %w", err)
	}
	return data, nil
}
