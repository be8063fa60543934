// Command csr measures csr-approver on its own control plane: the time from a burst of requests until the last one is approved, compared
// with a bare client that approves the same number in the same run, and the number of requests that a decision costs.
//
// Both get the same burst, created by the same number of clients, and have the same number of concurrent approvals. The bare client
// approves each request as soon as it has been created, without watching, reading or judging anything.
package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"os"
	"os/signal"
	"slices"
	"syscall"
	"time"

	"github.com/go-logr/logr"
	"k8s.io/klog/v2"
	"k8s.io/utils/clock"
	ctrl "sigs.k8s.io/controller-runtime"
)

// targets of the table.
const (
	maxRatio    = 1.3
	maxRequests = 1.0
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
		fmt.Fprintf(os.Stderr, "error: %v\n", err)
		os.Exit(1)
	}
}

// options are the values of the command line.
type options struct {
	requests, rounds int
	enforce          bool
}

func parse(args []string, out io.Writer) (options, error) {
	o := options{}
	flags := flag.NewFlagSet("csr", flag.ContinueOnError)
	flags.SetOutput(out)
	smoke := flags.Bool("smoke", false, "a tiny burst, to see that it works")
	flags.BoolVar(&o.enforce, "enforce", false, "fail if a target is missed")
	flags.IntVar(&o.requests, "requests", 500, "requests in a burst")
	flags.IntVar(&o.rounds, "rounds", 5, "bursts of each kind")
	if err := flags.Parse(args); err != nil {
		return o, err
	}
	if *smoke {
		o.requests, o.rounds = 20, 1
	}
	if o.requests < 1 || o.rounds < 1 || flags.NArg() > 0 {
		return o, errors.New("-requests and -rounds must be at least 1, and there are no arguments")
	}
	return o, nil
}

func run(ctx context.Context, args []string, out io.Writer, c clock.PassiveClock) (err error) {
	o, err := parse(args, out)
	if err != nil {
		return err
	}
	w, err := newWorld(ctx, o.requests)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, w.close()) }()
	b := &bursts{world: w, clock: c, out: out}
	var bare, ours []time.Duration
	if _, err = b.bare(ctx, "warm"); err != nil {
		return err
	}
	before, err := w.approver.requests(ctx)
	if err != nil {
		return err
	}
	for round := range o.rounds {
		var floor, took time.Duration
		if floor, err = b.bare(ctx, fmt.Sprintf("bare-%d", round)); err != nil {
			return err
		}
		if took, err = b.approver(ctx, fmt.Sprintf("ours-%d", round)); err != nil {
			return err
		}
		bare, ours = append(bare, floor), append(ours, took)
	}
	after, err := w.approver.requests(ctx)
	if err != nil {
		return err
	}
	return report(out, o, median(ours), median(bare), (after-before)/float64(o.requests*o.rounds))
}

func median(values []time.Duration) time.Duration {
	slices.Sort(values)
	return values[(len(values)-1)/2]
}

// report prints the table.
func report(out io.Writer, o options, ours, bare time.Duration, requests float64) error {
	ratio := ours.Seconds() / bare.Seconds()
	fmt.Fprintf(out, "\n%-46s %10s %10s %8s %8s\n", "csr-approver", "measured", "bare", "ratio", "target")
	fmt.Fprintf(out, "%-46s %9.3fs %9.3fs %8.2f %8s %s\n", fmt.Sprintf("burst of %d requests, last one approved", o.requests),
		ours.Seconds(), bare.Seconds(), ratio, fmt.Sprintf("≤ %.1f", maxRatio), verdict(ratio <= maxRatio))
	fmt.Fprintf(out, "%-46s %10.2f %10s %8s %8s %s\n", "requests to the API server per decision", requests, "", "", fmt.Sprintf("≤ %.0f", maxRequests), verdict(requests <= maxRequests))
	if o.enforce && (ratio > maxRatio || requests > maxRequests) {
		return errors.New("a target is missed")
	}
	return nil
}

func verdict(met bool) string {
	if met {
		return "met"
	}
	return "NOT MET"
}
