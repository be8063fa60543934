// Command csr-approver decides the CertificateSigningRequests of kubelets for serving certificates. It approves a request if the requested
// certificate belongs to the requesting node, and denies all other requests for serving certificates of kubelets. It ignores requests to
// other signers.
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
