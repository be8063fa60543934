package object

import (
	"fmt"
	"maps"

	"sigs.k8s.io/yaml"

	"github.com/espalier-dev/espalier/internal/garden/values"
)

// ConfigFile returns the configuration file of a binary with the given sections, and with the settings of the operator for logs.
func ConfigFile(v values.Values, sections map[string]any) (string, error) {
	sections = maps.Clone(sections)
	if v.LogLevel != "" {
		sections["logLevel"] = v.LogLevel
	}
	if v.LogFormat != "" {
		sections["logFormat"] = v.LogFormat
	}
	text, err := yaml.Marshal(sections)
	if err != nil {
		return "", fmt.Errorf("encode configuration: %w", err)
	}
	return string(text), nil
}
