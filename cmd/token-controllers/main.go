// Command token-controllers keeps ServiceAccount tokens of a target cluster fresh in Secrets, and marks static ones that are not used.
package main

import (
	"context"
	"fmt"
	"io"
	"os"

	"sigs.k8s.io/controller-runtime/pkg/metrics"

	"github.com/espalier-dev/espalier/internal/config"
	"github.com/espalier-dev/espalier/internal/process"
	"github.com/espalier-dev/espalier/internal/token"
)

func main() { os.Exit(process.Main(run)) }

func run(ctx context.Context, args []string, out io.Writer) error {
	program := process.Program{
		Name:    "token-controllers",
		Purpose: "Keeps ServiceAccount tokens of a target cluster fresh in Secrets, and marks unused static ones",
	}
	cfg, setup, err := process.Load(program, args, out, config.ResourceManager)
	if err != nil {
		return err
	}
	needs, err := token.Needs(cfg)
	if err != nil {
		return err
	}
	clusters, err := setup.Connect(ctx, needs)
	if err != nil {
		return err
	}
	if err := token.Add(ctx, clusters, cfg, metrics.Registry); err != nil {
		return fmt.Errorf("set up: %w", err)
	}
	return clusters.Start(ctx)
}
