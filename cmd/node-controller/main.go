// Command node-controller removes the taint that keeps Pods off a new Node, when the critical components on the Node are ready.
package main

import (
	"context"
	"io"
	"os"

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
	return process.Run(ctx, args, out, program, config.ResourceManager,
		process.Family[*config.ResourceManagerConfiguration]{Check: node.Check, Needs: node.Needs, Add: node.Add})
}
