// Command managedresource-controller keeps the objects of ManagedResources applied in a target cluster.
package main

import (
	"context"
	"fmt"
	"io"
	"os"

	"sigs.k8s.io/controller-runtime/pkg/metrics"

	"github.com/espalier-dev/espalier/internal/config"
	"github.com/espalier-dev/espalier/internal/managedresource"
	"github.com/espalier-dev/espalier/internal/managedresource/diff"
	"github.com/espalier-dev/espalier/internal/process"
)

func main() { os.Exit(process.Main(run, program().Subcommands...)) }

func program() process.Program {
	p := process.Program{
		Name:        "managedresource-controller",
		Purpose:     "Keeps the objects of ManagedResources applied in a target cluster",
		SharesLease: true,
	}
	p.Subcommands = []process.Subcommand{diff.Command(p, os.Stdin)}
	return p
}

func run(ctx context.Context, args []string, out io.Writer) error {
	cfg, setup, err := process.Load(program(), args, out, config.ResourceManager)
	if err != nil {
		return err
	}
	needs, err := managedresource.Needs(cfg)
	if err != nil {
		return err
	}
	clusters, err := setup.Connect(ctx, needs)
	if err != nil {
		return err
	}
	if err := managedresource.Add(ctx, clusters, cfg, metrics.Registry); err != nil {
		return fmt.Errorf("set up: %w", err)
	}
	return clusters.Start(ctx)
}
