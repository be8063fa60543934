// Command csr-approver approves the serving certificates that kubelets request, if they belong to the requesting node, and denies all
// others.
package main

import (
	"context"
	"io"
	"os"

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
	return process.Run(ctx, args, out, program, config.ResourceManager,
		process.Family[*config.ResourceManagerConfiguration]{Check: csr.Check, Needs: csr.Needs, Add: csr.Add})
}
