// Command token measures token-controllers on a real control plane and prints the figures with their targets:
//
//	go run ./test/bench/token [-smoke] [-enforce]
//
// Secrets without the label and Secrets that want a token exist before the process starts, as at an installation. The time of first issuing
// is that from the first request about a token to the last written Secret, by the audit log of the API server; in it the controller creates
// the ServiceAccounts, requests the tokens and writes the Secrets. In the same run, before and after, a bare client requests the same
// number of tokens for existing ServiceAccounts: once one after the other, like a script, and once with as many concurrent requests as the
// controller has workers. A second bare client does all three requests for each Secret, with the same concurrency as the controller.
//
// Controller and bare client each have a ServiceAccount with the roles of the binary, JSON or protobuf as their library chooses, and no
// client-side limit.
package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"os"
	"os/signal"
	"syscall"
	"time"

	"github.com/go-logr/logr"
	"k8s.io/klog/v2"
	ctrl "sigs.k8s.io/controller-runtime"

	"github.com/espalier-dev/espalier/test/bench/gauge"
)

// size is the amount of the measured work.
type size struct {
	secrets, foreign int
	rest             time.Duration
}

// report is the format of the figures.
var report = gauge.Report{Decimals: 2}

func main() {
	ctrl.SetLogger(logr.Discard()) // errors are returned
	klog.SetLogger(logr.Discard())
	smoke := flag.Bool("smoke", false, "a workload of seconds, to see that everything still works")
	enforce := flag.Bool("enforce", false, "exit with 1 if a target is missed")
	flag.Parse()
	s := size{secrets: 2000, foreign: 20000, rest: time.Minute}
	if *smoke {
		s = size{secrets: 100, foreign: 200, rest: 3 * time.Second}
	}
	ctx, cancel := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	met, err := run(ctx, s)
	cancel()
	os.Exit(gauge.Status(met, *enforce, err))
}

// run measures everything, and reports whether all targets are met.
func run(ctx context.Context, s size) (met bool, err error) {
	b, err := newBench(ctx)
	if err != nil {
		return false, err
	}
	defer func() { err = errors.Join(err, b.close()) }()
	before, err := b.floors(ctx, "before", s.secrets)
	if err != nil {
		return false, err
	}
	err = b.createForeign(ctx, s.foreign)
	if err != nil {
		return false, err
	}
	err = b.createWanting(ctx, "own", s.secrets)
	if err != nil {
		return false, err
	}
	own, err := b.issue(ctx, s.secrets)
	if err != nil {
		return false, err
	}
	requests, memory, err := b.rest(ctx, s.rest)
	if err != nil {
		return false, err
	}
	err = b.stopController()
	if err != nil {
		return false, err
	}
	after, err := b.floors(ctx, "after", s.secrets)
	if err != nil {
		return false, err
	}
	fmt.Printf("\nfirst issue of %d tokens: %s from first request to last write, %d requests\n", s.secrets, seconds(own.took), own.requests)
	met = report.Show("÷ bare client, token requests alone, one after the other", own.took.Seconds()/mean(before.sequential, after.sequential), 1.3)
	fmt.Printf("   (%s and %s)\n", seconds(before.sequential), seconds(after.sequential))
	report.Inform("÷ bare client, token requests alone, "+inFlight, own.took.Seconds()/mean(before.parallel, after.parallel))
	fmt.Printf("   (%s and %s)\n", seconds(before.parallel), seconds(after.parallel))
	report.Inform("÷ bare client, ServiceAccounts, tokens and Secrets, "+inFlight, own.took.Seconds()/mean(before.everything, after.everything))
	fmt.Printf("   (%s and %s)\n", seconds(before.everything), seconds(after.everything))
	met = report.Show(fmt.Sprintf("requests in %s at rest", s.rest), float64(requests), 0) && met
	met = report.Show(fmt.Sprintf("resident memory in MiB, beside %d foreign Secrets", s.foreign), memory, 60) && met
	return met, nil
}

func mean(a, b time.Duration) float64 { return (a + b).Seconds() / 2 }

func seconds(d time.Duration) string { return fmt.Sprintf("%.2f s", d.Seconds()) }
