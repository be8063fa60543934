package process

import (
	"encoding/json"
	"fmt"
	"runtime"
)

// Version is the version of this build. Only the linker sets it (-X github.com/espalier-dev/espalier/internal/process.Version).
var Version = "v0.0.0-dev"

// describeVersion returns the output of --version: one line of text, or JSON if raw.
func describeVersion(program Program, raw bool) (string, error) {
	if !raw {
		return program.Name + " " + Version, nil
	}
	described, err := json.Marshal(struct {
		Name      string `json:"name"`
		Version   string `json:"version"`
		GoVersion string `json:"goVersion"`
		Platform  string `json:"platform"`
	}{program.Name, Version, runtime.Version(), runtime.GOOS + "/" + runtime.GOARCH})
	if err != nil {
		return "", fmt.Errorf("describe version: %w", err)
	}
	return string(described), nil
}
