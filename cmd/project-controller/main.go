// Command project-controller gives Projects their namespaces, roles and quotas, and removes Projects that are not used.
package main

import (
	"context"
	"fmt"
	"io"
	"os"

	"sigs.k8s.io/controller-runtime/pkg/metrics"

	"github.com/espalier-dev/espalier/internal/config"
	"github.com/espalier-dev/espalier/internal/process"
	"github.com/espalier-dev/espalier/internal/project"
)

func main() { os.Exit(process.Main(run)) }

func run(ctx context.Context, args []string, out io.Writer) error {
	program := process.Program{
		Name:    "project-controller",
		Purpose: "Gives Projects their namespaces, roles and quotas, and removes unused ones",
		Source:  "garden",
	}
	cfg, setup, err := process.Load(program, args, out, config.ControllerManager)
	if err != nil {
		return err
	}
	needs, err := project.Needs(cfg)
	if err != nil {
		return err
	}
	clusters, err := setup.Connect(ctx, needs)
	if err != nil {
		return err
	}
	if err := project.Add(ctx, clusters, cfg, metrics.Registry); err != nil {
		return fmt.Errorf("set up: %w", err)
	}
	return clusters.Start(ctx)
}
