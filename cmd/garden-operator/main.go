// Command garden-operator reconciles Gardens, each of which describes an installation of Gardener, and validates them.
package main

import (
	"context"
	"fmt"
	"io"
	"os"

	"sigs.k8s.io/controller-runtime/pkg/metrics"

	"github.com/espalier-dev/espalier/internal/config"
	"github.com/espalier-dev/espalier/internal/garden"
	"github.com/espalier-dev/espalier/internal/process"
)

func main() { os.Exit(process.Main(run)) }

func run(ctx context.Context, args []string, out io.Writer) error {
	program := process.Program{
		Name:           "garden-operator",
		Purpose:        "Checks Gardens, which describe an installation of Gardener, and prepares the runtime cluster for them",
		Source:         "runtime",
		KeepsLeaseName: true,
	}
	cfg, setup, err := process.Load(program, args, out, config.Operator)
	if err != nil {
		return err
	}
	needs, err := garden.Needs(cfg)
	if err != nil {
		return err
	}
	clusters, err := setup.Connect(ctx, needs)
	if err != nil {
		return err
	}
	if err := garden.Add(ctx, clusters, cfg, metrics.Registry); err != nil {
		return fmt.Errorf("set up: %w", err)
	}
	return clusters.Start(ctx)
}
