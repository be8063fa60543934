// Command extension-controller installs extensions of Gardener in the cluster of a Seed. It is not an extension itself.
package main

import (
	"context"
	"io"
	"os"

	"github.com/espalier-dev/espalier/internal/config"
	"github.com/espalier-dev/espalier/internal/extension"
	"github.com/espalier-dev/espalier/internal/process"
)

func main() { os.Exit(process.Main(run, extension.Renderer())) }

func run(ctx context.Context, args []string, out io.Writer) error {
	program := process.Program{
		Name:    "extension-controller",
		Purpose: "Installs extensions of Gardener in the cluster of a Seed, as gardenlet does",
		Source:  "seed",
		Target:  "garden",
	}
	return process.Run(ctx, args, out, program, config.Gardenlet, extension.Family())
}
