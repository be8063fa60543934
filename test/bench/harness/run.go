// Package harness has the common parts of all benchmarks: clusters, the measured process, the audit log, statistics, and the table
// with the targets. It depends on no binary.
package harness

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"maps"
	"os"
	"path/filepath"
	"runtime/debug"
	"slices"
	"strings"
	"time"

	"k8s.io/utils/clock"

	"github.com/espalier-dev/espalier/test/local"
)

// Benchmark is a subcommand.
type Benchmark struct {
	Name, Summary string
	// Group is a subcommand that runs every benchmark with this group; empty for none.
	Group string
	// Sizes define the workload. Every size has a tiny value, so that a run with the flag -smoke is short.
	Sizes []Size
	// Flags defines the flags that only this benchmark has, besides its sizes; nil means none.
	Flags func(*flag.FlagSet)
	// Jobs returns the measurements. It is called after the flags are parsed, and validates them.
	Jobs func() ([]Job, error)
}

// Job is an independent measurement. It adds its rows to the Run, and ends as soon as a step fails.
type Job func(*Run)

// One returns the only job of a benchmark.
func One(j Job) func() ([]Job, error) {
	return func() ([]Job, error) { return []Job{j}, nil }
}

// Define sets the default sizes, and defines the flags.
func (b Benchmark) Define(flags *flag.FlagSet) {
	for _, s := range b.Sizes {
		s.define(flags)
	}
	if b.Flags != nil {
		b.Flags(flags)
	}
}

// Plan returns the measurements, with tiny sizes if they are wanted. It is called after the flags are parsed, and validates them.
func (b Benchmark) Plan(smoke bool) ([]Job, error) {
	for _, s := range b.Sizes {
		if err := s.apply(smoke); err != nil {
			return nil, err
		}
	}
	return b.Jobs()
}

// Size is a number, a duration or a text that defines a workload.
type Size struct {
	define func(*flag.FlagSet)
	apply  func(smoke bool) error
}

// Sized returns a size with its default and its tiny value. A user may set it only to more than the zero value, unless the tiny value is
// zero. If name is not empty, the size has a flag of that name.
func Sized[T int | time.Duration | string](value *T, name string, normal, tiny T, usage string) Size {
	define := func(flags *flag.FlagSet) {
		*value = normal
		if name == "" {
			return
		}
		switch v := any(value).(type) {
		case *int:
			flags.IntVar(v, name, *v, usage)
		case *time.Duration:
			flags.DurationVar(v, name, *v, usage)
		case *string:
			flags.StringVar(v, name, *v, usage)
		}
	}
	apply := func(smoke bool) error {
		if smoke {
			*value = tiny
		}
		if none := *new(T); *value < none || *value == none && tiny != none {
			return fmt.Errorf("-%s: %v is too small", name, *value)
		}
		return nil
	}
	return Size{define, apply}
}

// Options are the flags of all benchmarks.
type Options struct {
	// Smoke makes the benchmark tiny.
	Smoke bool
	// Enforce makes the run fail if an enforced row misses its target.
	Enforce bool
	// Profiles is the folder for profiles; empty means none.
	Profiles string
	// Binary, if set, is measured instead of one that is built from this tree.
	Binary string
}

// Run contains the folder, the options and the results of a job. Clusters and processes that its methods start are stopped after the job.
type Run struct {
	Options
	*local.Report
	// Dir is a temporary folder of the job.
	Dir string
	// Ctx ends with the job, and when a step fails.
	Ctx context.Context //nolint:containedctx // it is the context of the job, with the same lifetime

	// cancel ends the context; its cause is the error of the job.
	cancel context.CancelCauseFunc
	// within is the prefix of the error of the job.
	within string

	rows []Row
	ends []func(error) error
}

// Add adds rows to the table. They are also shown if the job fails later.
func (r *Run) Add(rows []Row) { r.rows = append(r.rows, rows...) }

// AtEnd calls a function after the job. The function gets the error of the job so far, and returns it joined with its own error. The
// functions are called in reverse order.
func (r *Run) AtEnd(end func(error) error) { r.ends = append(r.ends, end) }

// Main runs the benchmark or the group that the first argument names, or all benchmarks, and prints one table, even if a job could not be
// completed.
func Main(ctx context.Context, args []string, out io.Writer, benchmarks []Benchmark) error {
	selected, o, err := parse(args, out, benchmarks)
	if err != nil {
		return err
	}
	report := local.NewReport(out, clock.RealClock{})
	var rows []Row
	var failures []error
	for _, b := range selected {
		jobs, err := b.Plan(o.Smoke)
		failures = append(failures, err)
		for _, job := range jobs {
			if ctx.Err() != nil {
				break
			}
			report.Say("")
			report.Step("%s: %s", b.Name, b.Summary)
			report.Detail("%s", machine())
			run := &Run{Options: o, Report: report}
			if err := run.do(ctx, job); err != nil {
				failures = append(failures, fmt.Errorf("%s: %w", b.Name, err))
			}
			rows = append(rows, run.rows...)
		}
	}
	failures = append(failures, context.Cause(ctx)) // nil unless the run was interrupted
	if len(rows) > 0 {
		report.Say("")
		fmt.Fprint(out, Table(rows))
	}
	if o.Enforce {
		failures = append(failures, Enforce(rows))
	}
	return errors.Join(failures...)
}

// parse selects the benchmarks, and sets their flags. It prints the usage to out if it is requested, and then returns flag.ErrHelp.
func parse(args []string, out io.Writer, benchmarks []Benchmark) (selected []Benchmark, o Options, err error) {
	if len(args) == 0 || slices.Contains([]string{"", "help", "-h", "-help", "--help"}, args[0]) {
		usage(out, benchmarks)
		return nil, o, flag.ErrHelp
	}
	name := args[0]
	selected = slices.DeleteFunc(slices.Clone(benchmarks), func(b Benchmark) bool {
		return !slices.Contains([]string{"all", b.Name, b.Group}, name)
	})
	if len(selected) == 0 {
		return nil, o, fmt.Errorf("there is no benchmark %q", name)
	}
	flags := flag.NewFlagSet(name, flag.ContinueOnError)
	flags.SetOutput(out)
	flags.BoolVar(&o.Smoke, "smoke", false, "a tiny workload of seconds, to check that everything works; its figures say nothing")
	flags.BoolVar(&o.Enforce, "enforce", false,
		"fail if a target is missed; of managedresource-controller, only one that does not depend on the speed of the machine")
	flags.StringVar(&o.Profiles, "pprof", "", "`folder` for profiles of the measured processes (taking them costs a little time)")
	flags.StringVar(&o.Binary, "binary", "", "measure this `program` instead of building one, for comparisons")
	for _, b := range selected {
		own := flags
		if name != b.Name { // several run, and the flags of one benchmark may have the names of another one's
			own = flag.NewFlagSet(b.Name, flag.ContinueOnError)
		}
		b.Define(own)
	}
	err = flags.Parse(args[1:])
	if err != nil {
		return nil, o, err
	}
	if flags.NArg() > 0 {
		return nil, o, fmt.Errorf("unexpected argument %q", flags.Arg(0))
	}
	for _, path := range []*string{&o.Profiles, &o.Binary} {
		if *path != "" && err == nil {
			*path, err = filepath.Abs(*path)
		}
	}
	return selected, o, err
}

func usage(out io.Writer, benchmarks []Benchmark) {
	fmt.Fprintln(out, "usage: go run ./test/bench <benchmark> [flags]\n\nbenchmarks:")
	groups := map[string][]string{}
	for _, b := range benchmarks {
		fmt.Fprintf(out, "  %-14s %s\n", b.Name, b.Summary)
		groups[b.Group] = append(groups[b.Group], b.Name)
	}
	delete(groups, "")
	for _, name := range slices.Sorted(maps.Keys(groups)) {
		fmt.Fprintf(out, "  %-14s %s\n", name, strings.Join(groups[name], ", "))
	}
	fmt.Fprintln(out, "  all            every benchmark, with their default sizes or with -smoke")
}

// do runs a job and then stops everything. An error contains the state of the processes.
func (r *Run) do(ctx context.Context, job Job) (err error) {
	if r.Dir, err = os.MkdirTemp("", "espalier-bench-"); err != nil {
		return err
	}
	defer func() { err = errors.Join(err, os.RemoveAll(r.Dir)) }()
	r.Ctx, r.cancel = context.WithCancelCause(ctx)
	defer r.cancel(nil)
	done := make(chan struct{})
	go func() { // a step that fails ends this goroutine
		defer close(done)
		defer func() {
			if problem := recover(); problem != nil { // the processes must be stopped after a panic, too
				r.Check(fmt.Errorf("panic: %v\n%s", problem, debug.Stack()))
			}
		}()
		job(r)
	}()
	<-done
	if err = context.Cause(r.Ctx); err != nil {
		err = fmt.Errorf("%s%w", r.within, err)
	}
	for _, end := range slices.Backward(r.ends) {
		err = end(err)
	}
	return err
}

// FreePort returns a port of loopback that is not used by others until the end of the job.
func (r *Run) FreePort() int {
	port, release, err := local.FreePort()
	r.Check(err)
	r.AtEnd(func(err error) error {
		release()
		return err
	})
	return port
}

// build returns the path of a binary of cmd, which it builds unless Options.Binary is set.
func (r *Run) build(binary string) string {
	if r.Binary != "" {
		return r.Binary
	}
	root, err := local.RepositoryRoot()
	r.Check(err)
	path := filepath.Join(root, "bin", binary)
	r.Step("building bin/%s", binary)
	r.Check(local.Compile(r.Ctx, path, "./cmd/"+binary))
	return path
}
