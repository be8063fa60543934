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
	"errors"
	"flag"
	"fmt"
	"os"
	"os/signal"
	"syscall"

	"github.com/go-logr/logr"
	"k8s.io/klog/v2"
	ctrl "sigs.k8s.io/controller-runtime"

	"github.com/espalier-dev/espalier/test/bench/binaries"
	"github.com/espalier-dev/espalier/test/bench/harness"
	"github.com/espalier-dev/espalier/test/bench/managedresource"
)

func main() {
	ctrl.SetLogger(logr.Discard()) // errors are returned
	klog.SetLogger(logr.Discard())
	ctx, cancel := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	err := harness.Main(ctx, os.Args[1:], os.Stdout, append(managedresource.All(), binaries.All()...))
	cancel()
	if errors.Is(err, flag.ErrHelp) {
		return
	}
	if err != nil {
		fmt.Fprintf(os.Stderr, "\nerror: %v\n", err)
		os.Exit(1)
	}
}
