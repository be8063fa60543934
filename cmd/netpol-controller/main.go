// Command netpol-controller maintains the NetworkPolicies that Services request.
package main

import (
	"context"
	"fmt"
	"io"
	"os"

	"sigs.k8s.io/controller-runtime/pkg/metrics"

	"github.com/espalier-dev/espalier/internal/config"
	"github.com/espalier-dev/espalier/internal/networkpolicy"
	"github.com/espalier-dev/espalier/internal/networkpolicy/connectivity"
	"github.com/espalier-dev/espalier/internal/process"
)

func main() { os.Exit(process.Main(run, program().Subcommands...)) }

func program() process.Program {
	p := process.Program{
		Name:    "netpol-controller",
		Purpose: "Keeps the NetworkPolicies that Services ask for in a target cluster",
	}
	p.Subcommands = []process.Subcommand{connectivity.Command(p)}
	return p
}

func run(ctx context.Context, args []string, out io.Writer) error {
	cfg, setup, err := process.Load(program(), args, out, config.ResourceManager)
	if err != nil {
		return err
	}
	needs, err := networkpolicy.Needs(cfg)
	if err != nil {
		return err
	}
	clusters, err := setup.Connect(ctx, needs)
	if err != nil {
		return err
	}
	if err := networkpolicy.Add(ctx, clusters, cfg, metrics.Registry); err != nil {
		return fmt.Errorf("set up: %w", err)
	}
	return clusters.Start(ctx)
}
