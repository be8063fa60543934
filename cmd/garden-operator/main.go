// Command garden-operator reconciles and validates Gardens. A Garden describes an installation of Gardener.
package main

import (
	"context"
	"io"
	"os"

	"github.com/espalier-dev/espalier/internal/config"
	"github.com/espalier-dev/espalier/internal/garden"
	"github.com/espalier-dev/espalier/internal/garden/backup"
	"github.com/espalier-dev/espalier/internal/garden/plan"
	"github.com/espalier-dev/espalier/internal/garden/upgrade"
	"github.com/espalier-dev/espalier/internal/process"
)

func main() { os.Exit(process.Main(run, append(program().Subcommands, garden.Renderer())...)) }

func program() process.Program {
	p := process.Program{
		Name:           "garden-operator",
		Purpose:        "Checks Gardens, which describe an installation of Gardener, and prepares the runtime cluster for them",
		Source:         "runtime",
		KeepsLeaseName: true,
	}
	p.Subcommands = append(backup.Commands(p), plan.Command(p, os.Stdin), upgrade.Command(p), garden.StatusScreen(p))
	return p
}

func run(ctx context.Context, args []string, out io.Writer) error {
	return process.Run(ctx, args, out, program(), config.Operator,
		process.Family[*config.OperatorConfiguration]{Needs: garden.Needs, Add: garden.Add})
}
