// Command webhook-server serves the admission webhooks that change and validate the objects of a cluster.
package main

import (
	"context"
	"fmt"
	"io"
	"os"

	"sigs.k8s.io/controller-runtime/pkg/metrics"

	"github.com/espalier-dev/espalier/internal/config"
	"github.com/espalier-dev/espalier/internal/process"
	"github.com/espalier-dev/espalier/internal/webhook"
)

func main() { os.Exit(process.Main(run)) }

func run(ctx context.Context, args []string, out io.Writer) error {
	program := process.Program{
		Name:    "webhook-server",
		Purpose: "Serves the admission webhooks for Pods, workloads, autoscalers, EndpointSlices, Secrets and extension resources",
	}
	cfg, setup, err := process.Load(program, args, out, config.ResourceManager)
	if err != nil {
		return err
	}
	err = webhook.Check(cfg)
	if err != nil {
		return err
	}
	needs, err := webhook.Needs(cfg)
	if err != nil {
		return err
	}
	clusters, err := setup.Connect(ctx, needs)
	if err != nil {
		return err
	}
	if err := webhook.Add(ctx, clusters, cfg, metrics.Registry); err != nil {
		return fmt.Errorf("set up: %w", err)
	}
	return clusters.Start(ctx)
}
