// Command dashboards writes the dashboards in deploy/observability/dashboards: each as JSON for Plutono or Grafana, and as a
// PersesDashboard. `make generate` runs it. The dashboards are declared in dashboards.go.
package main

import (
	"fmt"
	"os"
	"path/filepath"
)

const folder = "deploy/observability/dashboards"

func main() {
	if err := run(filepath.FromSlash(folder)); err != nil {
		_, _ = fmt.Fprintln(os.Stderr, "error:", err)
		os.Exit(1)
	}
}

func run(folder string) error {
	if err := os.RemoveAll(folder); err != nil {
		return fmt.Errorf("remove former dashboards: %w", err)
	}
	if err := os.MkdirAll(folder, 0o750); err != nil {
		return fmt.Errorf("create folder of dashboards: %w", err)
	}
	for _, each := range dashboards() {
		for extension, write := range map[string]func() ([]byte, error){".json": each.plutono, ".perses.yaml": each.perses} {
			content, err := write()
			if err != nil {
				return fmt.Errorf("encode dashboard %s: %w", each.name, err)
			}
			if err := os.WriteFile(filepath.Join(folder, each.name+extension), content, 0o600); err != nil {
				return fmt.Errorf("write dashboard: %w", err)
			}
		}
	}
	return nil
}
