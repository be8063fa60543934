// Command run implements `make e2e`: it prepares a cluster, deploys the binaries with the shipped manifests, runs the end-to-end suites one
// after the other, and prints their results. docs/e2e.md describes it.
//
//	run [-labels FILTER] [-without BINARY | -matrix] [-keep] [SUITE…]
//
// Without names it runs the suite of every binary. The environment describes the cluster:
//
//	E2E_CLUSTER     node (the default: a real node on this machine), kind, or nothing with KUBECONFIG set
//	KUBECONFIG      the cluster to use if E2E_CLUSTER is not set; its images are E2E_REPOSITORY/<binary>:E2E_VERSION
//	E2E_VERSION     the version of the images; else that of the work tree
//	E2E_REPOSITORY  the prefix of image names; else espalier.local
//
// The exit code is 0 if everything passed, 1 if something failed, and 77 if this machine cannot run such a cluster, so that nothing was
// tested.
package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"os"
	"os/signal"
	"slices"
	"syscall"

	"github.com/go-logr/logr"
	"k8s.io/utils/clock"
	"sigs.k8s.io/controller-runtime/pkg/log"

	"github.com/espalier-dev/espalier/test/e2e/cluster"
	"github.com/espalier-dev/espalier/test/local"
)

// codeSkipped is the common exit code of test runners for "nothing was tested".
const codeSkipped = 77

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	context.AfterFunc(ctx, stop)  // a second signal ends the process at once
	log.SetLogger(logr.Discard()) // the steps print everything important
	err := run(ctx, os.Args[1:])
	stop()
	var impossible *impossibleError
	switch {
	case err == nil || errors.Is(err, flag.ErrHelp):
	case errors.As(err, &impossible):
		fmt.Fprintf(os.Stderr, "\nSKIPPED: no end-to-end test was run: %v\n", err)
		os.Exit(codeSkipped)
	default:
		fmt.Fprintf(os.Stderr, "\nerror: %v\n", err)
		os.Exit(1)
	}
}

// impossibleError names the things that the machine lacks.
type impossibleError struct{ lack string }

func (e *impossibleError) Error() string { return e.lack }

func run(ctx context.Context, args []string) error {
	root, err := local.RepositoryRoot()
	if err != nil {
		return err
	}
	o, err := parseOptions(args, os.Getenv)
	if err != nil {
		return err
	}
	suites, err := findSuites(root, slices.Sorted(slices.Values(cluster.Binaries())))
	if err != nil {
		return err
	}
	rounds, err := o.rounds(suites)
	if err != nil {
		return err
	}
	r := &runner{options: o, Report: local.NewReport(os.Stdout, clock.RealClock{}), root: root, found: suites}
	defer r.takeDown(context.WithoutCancel(ctx))
	if err := r.prepare(ctx); err != nil {
		return err
	}
	return r.run(ctx, rounds)
}
