// Command project measures project-controller on real control planes and prints the figures with their targets:
//
//	go run ./test/bench/project [-smoke] [-enforce] [-generated] [-secrets number] [-profile folder]
//
// Every Project has an owner and four members, of which three are people or groups. First convergence: the Projects exist
// before the process starts, as at an installation; its time is that from the first write of the process to the last one,
// by the audit log of the API server. A bare client, before and after, creates the same namespaces, roles and bindings on API
// servers of its own, which hold the same Projects: as many Projects at once as the controller has workers, and within each
// first the namespace and then everything else at once. It does not write to Projects, which the controller does three
// times for each: finalizer, first phase, last phase. What a bare client needs that does that as well is printed beside it.
//
// Then the process is stopped, every other namespace gets Shoots and their SecretBinding, and the others Secrets and Quotas,
// which those Shoots use, but for one in five, which nobody uses. Each Shoot has Secrets of its own. The process starts again
// with a short period of stale checks, no Project too young to be stale, and no deletion: how long until it is in sync, and
// with how many requests; then, while nothing happens, how many it sends, and what a check costs. It fails unless exactly
// those Projects are marked that nobody uses. All of that is younger than an hour, so that each namespace's activity is
// recorded once at that start; in a garden that is older, that does not happen.
//
// Controller and bare client each have a ServiceAccount with the roles of the binary, JSON or protobuf as their library
// chooses, and no client-side limit. No webhook is called.
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
)

// options of a run.
type options struct {
	projects, shoots int
	// secrets is how many each Shoot has.
	secrets int
	// period is that of the stale checks after the first convergence, rest how long nothing happens.
	period, rest time.Duration
	// generated leaves it to the controller to name the namespaces.
	generated bool
	// profiles is the folder for profiles; empty for none.
	profiles string
}

func main() {
	ctrl.SetLogger(logr.Discard()) // what goes wrong comes back as an error
	klog.SetLogger(logr.Discard())
	o := options{period: 20 * time.Second, rest: time.Minute}
	flag.IntVar(&o.projects, "projects", 5000, "`number` of Projects")
	flag.IntVar(&o.shoots, "shoots", 20000, "`number` of Shoots in all")
	flag.IntVar(&o.secrets, "secrets", 2, "`number` of Secrets of each Shoot")
	flag.BoolVar(&o.generated, "generated", false, "leave it to the controller to name the namespaces")
	flag.StringVar(&o.profiles, "profile", "", "`folder` for profiles: processor time of the first convergence, heap at rest")
	smoke := flag.Bool("smoke", false, "a workload of seconds, to see that everything still works")
	enforce := flag.Bool("enforce", false, "exit with 1 if a target is missed")
	flag.Parse()
	if *smoke {
		o.projects, o.shoots, o.period, o.rest = 30, 120, time.Second, 3*time.Second
	}
	ctx, cancel := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	met, err := run(ctx, o)
	cancel()
	if err == nil && *enforce && !met {
		err = errors.New("a target is missed")
	}
	if err != nil {
		fmt.Fprintf(os.Stderr, "\nerror: %v\n", err)
		os.Exit(1)
	}
}

// run measures everything, and tells whether all targets are met.
func run(ctx context.Context, o options) (met bool, err error) {
	dir, err := os.MkdirTemp("", "espalier-bench-project-")
	if err != nil {
		return false, err
	}
	defer func() { err = errors.Join(err, os.RemoveAll(dir)) }()
	b := &bench{options: o, dir: dir}
	err = b.build(ctx)
	if err != nil {
		return false, err
	}
	before, err := b.floor(ctx, "before", objectsOnly)
	if err != nil {
		return false, err
	}
	own, err := b.own(ctx)
	if err != nil {
		return false, err
	}
	after, err := b.floor(ctx, "after", objectsOnly)
	if err != nil {
		return false, err
	}
	everything, err := b.floor(ctx, "everything", withProjects)
	if err != nil {
		return false, err
	}
	return b.report(before, after, everything, own), nil
}

func (b *bench) report(before, after, everything time.Duration, own result) bool {
	count := float64(b.options.projects)
	mean := (before + after).Seconds() / 2
	fmt.Printf("\n%d Projects, %d Shoots with %d Secrets each, %d workers\n", b.options.projects, b.options.shoots, b.options.secrets, workers)
	fmt.Printf("first convergence: %s from the first write to the last, %s from the start of the process\n", seconds(own.convergence.took), seconds(own.convergence.sinceStart))
	own.convergence.sent.print()
	met := show("÷ bare client, namespaces, roles and bindings", own.convergence.took.Seconds()/mean, 1.3)
	fmt.Printf("   (%s and %s)\n", seconds(before), seconds(after))
	inform("÷ bare client that writes to the Projects as well", own.convergence.took.Seconds()/everything.Seconds())
	fmt.Printf("   (%s)\n", seconds(everything))
	inform("requests for each Project", float64(own.convergence.sent.all())/count)
	met = show(fmt.Sprintf("requests in %s at rest, stale checks every %s", b.options.rest, b.options.period), float64(own.rest.all()), 0) && met
	own.rest.print()
	inform("   stale checks meanwhile", own.checking.checks)
	inform("   processor time for each, in microseconds, with all else that the process does", own.checking.each())
	met = show("resident memory at rest, in MiB", own.memory, 120) && met
	inform("   highest since its start, in MiB", own.peak)
	inform("restart until in sync, in seconds", own.restart.sinceStart.Seconds())
	inform("   requests", float64(own.restart.sent.all()))
	own.restart.sent.print()
	return met
}

func seconds(d time.Duration) string { return fmt.Sprintf("%.2f s", d.Seconds()) }

func inform(what string, value float64) { fmt.Printf("%-75s %8.2f\n", what, value) }

func show(what string, value, target float64) bool {
	verdict := "met"
	if value > target {
		verdict = "NOT MET"
	}
	fmt.Printf("%-75s %8.2f   target ≤ %g: %s\n", what, value, target, verdict)
	return value <= target
}
