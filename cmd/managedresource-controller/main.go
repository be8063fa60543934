// Command managedresource-controller keeps the objects of ManagedResources applied in a target cluster.
package main

import (
	"context"
	"io"
	"os"

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
	return process.Run(ctx, args, out, program(), config.ResourceManager,
		process.Family[*config.ResourceManagerConfiguration]{Needs: managedresource.Needs, Add: managedresource.Add})
}
