// Command project measures project-controller on real control planes and prints the figures with their targets:
//
//	go run ./test/bench/project [-smoke] [-enforce] [-alone] [-generated] [-secrets number] [-profile folder]
//
// Every Project has an owner and four members, of which three are people or groups.
//
// First convergence: the Projects exist before the process starts, as at an installation. Its time is that from the first write of the
// process to the last one, by the audit log of the API server. A bare client, before and after, creates the same namespaces, roles and
// bindings on separate API servers with the same Projects: as many Projects concurrently as the controller has workers, and for each first
// the namespace and then everything else at once. It does not write to Projects, which the controller does three times for each: finalizer,
// first phase, last phase. The time of a bare client that also does that is printed too. If API server and writer share a few processors,
// each request costs processor time: a write to a Project, which the API server validates by the rules of its CRD, takes about three times
// as much as the creation of a role or binding. The processor time of API server, etcd and writer is printed for all of them, because other
// load on the machine affects it less than the elapsed time.
//
// Then the process is stopped. Every other namespace gets Shoots and their SecretBinding. The other namespaces get Secrets and Quotas,
// which those Shoots use, except for one in five, which is unused. Each Shoot has its own Secrets. The process starts again with a short
// period of stale checks, no Project too young to be stale, and no deletion. The figures are the time until it has checked all Projects,
// the time until there is nothing left to write, and the number of requests; then, while nothing happens, the number of requests, and the
// cost of a check. The run fails unless exactly the unused Projects are marked. All objects are younger than an hour, so that each
// namespace's activity is recorded once at that start, which takes most of its time; this does not happen in an older garden.
//
// Controller and bare client each have a ServiceAccount with the roles of the binary, JSON or protobuf as their library chooses, and no
// client-side limit. No webhook is called.
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

// options are those of a run.
type options struct {
	projects, shoots int
	// secrets is how many each Shoot has.
	secrets int
	// period is that of the stale checks after the first convergence, rest is the duration of the idle measurement.
	period, rest time.Duration
	// generated lets the controller choose the names of the namespaces.
	generated bool
	// alone omits the bare clients.
	alone bool
	// profiles is the folder for profiles; empty for none.
	profiles string
}

// report is the format of the figures.
var report = gauge.Report{Decimals: 2}

func main() {
	ctrl.SetLogger(logr.Discard()) // errors are returned
	klog.SetLogger(logr.Discard())
	o := options{period: 20 * time.Second, rest: time.Minute}
	flag.IntVar(&o.projects, "projects", 5000, "`number` of Projects")
	flag.IntVar(&o.shoots, "shoots", 20000, "`number` of Shoots in all")
	flag.IntVar(&o.secrets, "secrets", 2, "`number` of Secrets of each Shoot")
	flag.BoolVar(&o.generated, "generated", false, "leave it to the controller to name the namespaces")
	flag.BoolVar(&o.alone, "alone", false, "leave the bare clients out, and with them what the first convergence is compared with")
	flag.StringVar(&o.profiles, "profile", "", "`folder` for profiles: processor time of the first convergence and of bare clients, heap at rest")
	smoke := flag.Bool("smoke", false, "a workload of seconds, to see that everything still works")
	enforce := flag.Bool("enforce", false, "exit with 1 if a target is missed")
	flag.Parse()
	if *smoke {
		o.projects, o.shoots, o.period, o.rest = 30, 120, time.Second, 3*time.Second
	}
	ctx, cancel := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	met, err := run(ctx, o)
	cancel()
	os.Exit(gauge.Status(met, *enforce, err))
}

// run measures everything, and reports whether all targets are met.
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
	if o.alone {
		own, failure := b.own(ctx)
		return failure == nil && b.report(nil, own), failure
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
	return b.report(&floors{before, after, everything}, own), nil
}

// floors are the results of the bare clients.
type floors struct{ before, after, everything floor }

// report prints everything. Without floors there is no comparison, and no target counts as met.
func (b *bench) report(than *floors, own result) bool {
	count := float64(b.options.projects)
	fmt.Printf("\n%d Projects, %d Shoots with %d Secrets each, %d workers\n", b.options.projects, b.options.shoots, b.options.secrets, workers)
	fmt.Printf("first convergence: %s from the first write to the last, %s from the start of the process\n", seconds(own.convergence.took), seconds(own.convergence.sinceStart))
	own.convergence.sent.print()
	met := than != nil && than.compare(own)
	report.Inform("requests for each Project", float64(own.convergence.sent.all())/count)
	met = report.Show(fmt.Sprintf("requests in %s at rest, stale checks every %s", b.options.rest, b.options.period), float64(own.rest.all()), 0) && met
	own.rest.print()
	report.Inform("   stale checks meanwhile", own.checking.checks)
	report.Inform("   processor time for each, in microseconds, with all else that the process does", own.checking.each())
	met = report.Show("resident memory at rest, in MiB", own.memory, 120) && met
	report.Inform("   highest since its start, in MiB", own.peak)
	report.Inform("restart until the main loop has looked at all Projects, in seconds", own.restart.looked.Seconds())
	report.Inform("   until nothing is left to write either, in seconds", own.restart.sinceStart.Seconds())
	fmt.Printf("   (processor time: %s)\n", own.restart.spent)
	report.Inform("   requests", float64(own.restart.sent.all()))
	own.restart.sent.print()
	return met
}

func (f *floors) compare(own result) bool {
	mean := (f.before.took + f.after.took).Seconds() / 2
	met := report.Show("÷ bare client, namespaces, roles and bindings", own.convergence.took.Seconds()/mean, 1.3)
	fmt.Printf("   (%s and %s)\n", seconds(f.before.took), seconds(f.after.took))
	report.Inform("÷ bare client that writes to the Projects as well", own.convergence.took.Seconds()/f.everything.took.Seconds())
	fmt.Printf("   (%s)\n", seconds(f.everything.took))
	return met
}

func seconds(d time.Duration) string { return fmt.Sprintf("%.2f s", d.Seconds()) }
