// Command project-controller creates the namespaces, roles and quotas of Projects, and deletes Projects that are not used.
package main

import (
	"context"
	"io"
	"os"

	"github.com/espalier-dev/espalier/internal/config"
	"github.com/espalier-dev/espalier/internal/process"
	"github.com/espalier-dev/espalier/internal/project"
)

func main() { os.Exit(process.Main(run)) }

func run(ctx context.Context, args []string, out io.Writer) error {
	program := process.Program{
		Name:    "project-controller",
		Purpose: "Gives Projects their namespaces, roles and quotas, and removes unused ones",
		Source:  "garden",
	}
	return process.Run(ctx, args, out, program, config.ControllerManager,
		process.Family[*config.ControllerManagerConfiguration]{Needs: project.Needs, Add: project.Add})
}
