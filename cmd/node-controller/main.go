// Command node-controller removes the taint that keeps Pods off new Nodes when the critical components on them are ready.
package main

import (
	"context"
	"fmt"
	"io"
	"os"

	"sigs.k8s.io/controller-runtime/pkg/metrics"

	"github.com/espalier-dev/espalier/internal/config"
	"github.com/espalier-dev/espalier/internal/node"
	"github.com/espalier-dev/espalier/internal/process"
)

func main() { os.Exit(process.Main(run)) }

func run(ctx context.Context, args []string, out io.Writer) error {
	program := process.Program{
		Name:    "node-controller",
		Purpose: "Removes the taint of new Nodes once their critical components are ready",
	}
	cfg, setup, err := process.Load(program, args, out, config.ResourceManager)
	if err != nil {
		return err
	}
	err = node.Check(cfg)
	if err != nil {
		return err
	}
	needs, err := node.Needs(cfg)
	if err != nil {
		return err
	}
	clusters, err := setup.Connect(ctx, needs)
	if err != nil {
		return err
	}
	if err := node.Add(ctx, clusters, cfg, metrics.Registry); err != nil {
		return fmt.Errorf("set up: %w", err)
	}
	return clusters.Start(ctx)
}
