// Command webhook-server serves the admission webhooks that change and validate the objects of a cluster.
package main

import (
	"context"
	"io"
	"os"

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
	return process.Run(ctx, args, out, program, config.ResourceManager,
		process.Family[*config.ResourceManagerConfiguration]{Check: webhook.Check, Needs: webhook.Needs, Add: webhook.Add})
}
