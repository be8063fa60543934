// Command netpol-controller maintains the NetworkPolicies that Services request and, if configured, general NetworkPolicies of namespaces.
package main

import (
	"context"
	"io"
	"os"

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
	return process.Run(ctx, args, out, program(), config.ResourceManager,
		process.Family[*config.ResourceManagerConfiguration]{Needs: networkpolicy.Needs, Add: networkpolicy.Add})
}
