// Command csr-approver approves the serving certificates that kubelets request, if they belong to the requesting node, and denies all
// others.
package main

import (
	"context"
	"fmt"
	"io"
	"os"

	"sigs.k8s.io/controller-runtime/pkg/metrics"

	"github.com/espalier-dev/espalier/internal/config"
	"github.com/espalier-dev/espalier/internal/csr"
	"github.com/espalier-dev/espalier/internal/process"
)

func main() { os.Exit(process.Main(run)) }

func run(ctx context.Context, args []string, out io.Writer) error {
	program := process.Program{
		Name:    "csr-approver",
		Purpose: "Approves or denies the serving certificates that kubelets ask for",
	}
	cfg, setup, err := process.Load(program, args, out, config.ResourceManager)
	if err != nil {
		return err
	}
	err = csr.Check(cfg)
	if err != nil {
		return err
	}
	needs, err := csr.Needs(cfg)
	if err != nil {
		return err
	}
	clusters, err := setup.Connect(ctx, needs)
	if err != nil {
		return err
	}
	if err := csr.Add(ctx, clusters, cfg, metrics.Registry); err != nil {
		return fmt.Errorf("set up: %w", err)
	}
	return clusters.Start(ctx)
}
