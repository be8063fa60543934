// Command bench implements `make bench` and similar targets: it measures managedresource-controller on a real control plane and prints the
// figures with their targets. Each job has its own clusters, so that no figure depends on earlier measurements; all processes end with the
// command, even if it is interrupted.
//
// A workload is compared with a bare client that creates and deletes the same objects in the same run, in this order: the bare client,
// converging, the bare client again, rest, drift repair, a change in every set between two by the bare client, a restart, the deletion of
// all sets, the bare client a third time. The floor for creating is the mean of the bare client's runs before and after converging, that
// for deleting the mean of those before and after the deletion; their difference shows how idle the machine was. Controller and bare client
// each have a ServiceAccount with all rights in the target, JSON as their content type and no client-side limit; the API server's audit log
// contains the requests of both. -scale uses large workloads and one across two clusters.
//
// Other jobs measure the latency of conditions (-latency), start-up and memory with very many foreign Secrets (-secrets), and growth over
// hours of continuous change (-soak).
//
// A missed target does not fail the run unless -enforce is given, and then only ratios, counts of requests and bounds of growth do, so that
// no pipeline depends on the speed of its machine.
//
//	KUBEBUILDER_ASSETS   use these control plane binaries instead of building them
package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"os"
	"os/signal"
	"syscall"

	"github.com/go-logr/logr"
	"k8s.io/klog/v2"
	"k8s.io/utils/clock"
	ctrl "sigs.k8s.io/controller-runtime"
)

func main() {
	ctrl.SetLogger(logr.Discard()) // errors are returned
	klog.SetLogger(logr.Discard())
	ctx, cancel := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	err := run(ctx, os.Args[1:], os.Stdout, clock.RealClock{})
	cancel()
	if errors.Is(err, flag.ErrHelp) {
		return
	}
	if err != nil {
		fmt.Fprintf(os.Stderr, "\nerror: %v\n", err)
		os.Exit(1)
	}
}

// run runs every job and prints the table, even if a job could not be completed.
func run(ctx context.Context, args []string, out io.Writer, c clock.PassiveClock) error {
	o, err := parseOptions(args, out)
	if err != nil {
		return err
	}
	r := &report{out: out, clock: c, begin: c.Now()}
	m := describeMachine()
	r.step("%s", m)
	programs, err := prepare(ctx, r, o)
	if err != nil {
		return err
	}
	var rows []row
	var failures []error
	for _, j := range o.jobs {
		some, err := j.run(ctx, runner{report: r, programs: programs, profiles: o.profiles})
		rows = append(rows, some...)
		if err == nil {
			err = context.Cause(ctx)
		}
		if err != nil {
			failures = append(failures, err)
		}
		if ctx.Err() != nil {
			break
		}
	}
	r.say("")
	r.say(m)
	r.table(rows)
	if o.enforce {
		failures = append(failures, enforce(rows))
	}
	return errors.Join(failures...)
}
