// Command bench measures the binaries on real control planes, each against a bare client that does the least possible in the same run, and
// prints the figures with their targets:
//
//	go run ./test/bench <benchmark> [flags]
//
// Each job has its own clusters, so that no figure depends on earlier measurements; all processes end with the command, even if it is
// interrupted. A missed target does not fail the run unless -enforce is given. Measure on a quiet machine: the load average is printed when
// a job begins, and repeated figures are printed with how far they lie apart.
//
//	KUBEBUILDER_ASSETS   use these control plane binaries instead of building them
package main

import (
	"context"
	"io"
	"os"

	"github.com/go-logr/logr"
	"k8s.io/klog/v2"

	"github.com/espalier-dev/espalier/test/bench/binaries"
	"github.com/espalier-dev/espalier/test/bench/harness"
	"github.com/espalier-dev/espalier/test/bench/managedresource"
	"github.com/espalier-dev/espalier/test/local"
)

func main() {
	klog.SetLogger(logr.Discard()) // errors are returned
	os.Exit(local.Main(func(ctx context.Context, args []string, out io.Writer) error {
		return harness.Main(ctx, args, out, append(managedresource.All(), binaries.All()...))
	}))
}
