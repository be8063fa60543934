// Command token-controllers keeps valid ServiceAccount tokens of a target cluster in Secrets, and marks static tokens that are not used.
package main

import (
	"context"
	"io"
	"os"

	"github.com/espalier-dev/espalier/internal/config"
	"github.com/espalier-dev/espalier/internal/process"
	"github.com/espalier-dev/espalier/internal/token"
)

func main() { os.Exit(process.Main(run)) }

func run(ctx context.Context, args []string, out io.Writer) error {
	program := process.Program{
		Name:    "token-controllers",
		Purpose: "Keeps ServiceAccount tokens of a target cluster fresh in Secrets, and marks unused static ones",
	}
	return process.Run(ctx, args, out, program, config.ResourceManager,
		process.Family[*config.ResourceManagerConfiguration]{Needs: token.Needs, Add: token.Add})
}
