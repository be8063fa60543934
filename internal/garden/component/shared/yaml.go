package shared

import (
	"encoding/json"
	"fmt"

	"go.yaml.in/yaml/v2"
)

// YAML returns an object as a text that is always the same: the keys of maps are in the order of their bytes. That of sigs.k8s.io/yaml
// differs between calls if keys have digits and letters, as those of references and of quotas have.
func YAML(object any) ([]byte, error) {
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
