package manifest

import (
	"encoding/json"
	"fmt"

	"go.yaml.in/yaml/v2"
)

// Encode returns an object as YAML. The text is always the same: the keys of maps are in the order of their bytes. Texts of
// sigs.k8s.io/yaml differ between calls if keys consist of digits and letters, as the keys of references and of quotas do.
func Encode(object any) ([]byte, error) {
	sorted, err := json.Marshal(object)
	if err != nil {
		return nil, fmt.Errorf("encode as JSON: %w", err)
	}
	var ordered yaml.MapSlice // keeps the order
	if err = yaml.Unmarshal(sorted, &ordered); err != nil {
		return nil, fmt.Errorf("decode JSON: %w", err)
	}
	return yaml.Marshal(ordered)
}
