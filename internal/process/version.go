package process

import (
	"encoding/json"
	"errors"
	"fmt"
	"runtime"

	"github.com/prometheus/client_golang/prometheus"
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

// registerBuildInfo registers a metric that says which binary serves the metrics of a target.
func registerBuildInfo(registry prometheus.Registerer, program Program) error {
	// Use it to select targets: their names and labels depend on the installation.
	info := prometheus.NewGauge(prometheus.GaugeOpts{
		Name: "espalier_build_info", Help: "Always 1, with the name and the version of the binary.",
		ConstLabels: prometheus.Labels{"binary": program.Name, "version": Version},
	})
	info.Set(1)
	if err := registry.Register(info); err != nil && !errors.As(err, &prometheus.AlreadyRegisteredError{}) { // a test runs a binary twice
		return fmt.Errorf("register version: %w", err)
	}
	return nil
}
