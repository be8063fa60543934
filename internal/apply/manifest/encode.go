package manifest

import (
	"encoding/json"
	"fmt"

	"go.yaml.in/yaml/v2"
)

// Encode returns an object as YAML. Equal objects give equal text, because the keys of maps are sorted by their bytes. sigs.k8s.io/yaml can
// return different texts for one object if keys contain digits and letters, as the keys of reference annotations and quotas do.
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
