// Command networkpolicy measures netpol-controller: the time from its start until all policies exist, compared with a bare client that
// creates policies with the same bodies and the same number of concurrent requests, in the same run; and the number of requests that a new
// namespace costs. It starts an API server and the real binary with its own role. All processes end with the command.
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
	"os/exec"
	"os/signal"
	"path/filepath"
	"runtime"
	"syscall"
	"time"

	"github.com/go-logr/logr"
	"k8s.io/klog/v2"
	ctrl "sigs.k8s.io/controller-runtime"

	"github.com/espalier-dev/espalier/test/local"
)

// limit is how long a run may take.
const limit = 20 * time.Minute

// target is the maximum ratio of the times.
const target = 1.5

// options are those of a run.
type options struct {
	namespaces, services, crowd, rounds int
	enforce                             bool
}

func main() {
	ctrl.SetLogger(logr.Discard()) // errors are returned
	klog.SetLogger(logr.Discard())
	ctx, cancel := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	err := run(ctx, os.Args[1:], os.Stdout)
	cancel()
	if errors.Is(err, flag.ErrHelp) {
		return
	}
	if err != nil {
		fmt.Fprintf(os.Stderr, "\nerror: %v\n", err)
		os.Exit(1)
	}
}

func parse(args []string, out io.Writer) (options, error) {
	var o options
	flags := flag.NewFlagSet("networkpolicy", flag.ContinueOnError)
	flags.SetOutput(out)
	flags.IntVar(&o.namespaces, "namespaces", 300, "`number` of namespaces")
	flags.IntVar(&o.services, "services", 5, "`number` of Services in each")
	flags.IntVar(&o.crowd, "crowd", 10, "`number` of namespaces where every Service selects every namespace")
	flags.IntVar(&o.rounds, "rounds", 2, "how often each time is measured, in turn; the sums are compared")
	flags.BoolVar(&o.enforce, "enforce", false, "fail if a target is missed")
	smoke := flags.Bool("smoke", false, "a tiny workload, to see that it works; its ratios say nothing, since the start of the process counts")
	if err := flags.Parse(args); err != nil {
		return options{}, err
	}
	if *smoke {
		o.namespaces, o.services, o.crowd, o.rounds = 10, 2, 4, 1
	}
	if min(o.namespaces, o.services, o.crowd, o.rounds) < 1 {
		return options{}, errors.New("all numbers must be at least 1")
	}
	return o, nil
}

// scenarios returns the variants of "n namespaces × m Services with a selector that matches all".
func (o options) scenarios() []scenario {
	return []scenario{
		{
			name: "handled", namespaces: o.namespaces, services: o.services,
			text: fmt.Sprintf("%d namespaces × %d Services, all handled because of one selector in the configuration", o.namespaces, o.services),
		},
		{
			name: "clients", namespaces: o.namespaces, services: o.services, oneHome: true, selecting: true,
			text: fmt.Sprintf("%d namespaces × %d Services that all lie in one of them and select all %d as clients", o.namespaces, o.services, o.namespaces),
		},
		{
			name: "crowd", namespaces: o.crowd, services: o.services, selecting: true,
			text: fmt.Sprintf("%d namespaces × %d Services each, of which every one selects all namespaces as clients (scaled down: %d namespaces would need %d policies)",
				o.crowd, o.services, o.namespaces, o.namespaces*o.services*o.namespaces*2),
		},
	}
}

func run(ctx context.Context, args []string, out io.Writer) (err error) {
	o, err := parse(args, out)
	if err != nil {
		return err
	}
	ctx, cancel := context.WithTimeoutCause(ctx, limit, fmt.Errorf("not finished within %s", limit))
	defer cancel()
	dir, err := os.MkdirTemp("", "espalier-bench-networkpolicy-")
	if err != nil {
		return fmt.Errorf("create folder: %w", err)
	}
	defer func() { err = errors.Join(err, os.RemoveAll(dir)) }()
	program, assets, err := build(ctx, dir, out)
	if err != nil {
		return err
	}
	plane, err := local.Start(ctx, local.Options{Dir: filepath.Join(dir, "plane"), Assets: assets})
	if err != nil {
		return fmt.Errorf("start control plane: %w", err)
	}
	defer func() { err = errors.Join(err, plane.Stop()) }()
	w, err := newWorld(ctx, plane, dir, program, out)
	if err != nil {
		return err
	}
	w.say("%d cores, %s/%s; controller and bare client have up to %d requests in flight, the same encoding and the same rights", runtime.NumCPU(), runtime.GOOS, runtime.GOARCH, inFlight)
	met := true
	for _, each := range o.scenarios() {
		fine, err := w.measure(ctx, each, o.rounds)
		if err != nil {
			return fmt.Errorf("measure %s: %w", each.name, err)
		}
		met = met && fine
	}
	if o.enforce && !met {
		return errors.New("a target was missed")
	}
	return nil
}

func build(ctx context.Context, dir string, out io.Writer) (program, assets string, err error) {
	root, err := local.RepositoryRoot()
	if err != nil {
		return "", "", err
	}
	if assets, err = local.Assets(ctx, out); err != nil {
		return "", "", err
	}
	program = filepath.Join(dir, binaryName)
	command := exec.CommandContext(ctx, "go", "build", "-o", program, "./cmd/"+binaryName)
	command.Dir, command.Stdout, command.Stderr = root, out, out
	if err := command.Run(); err != nil {
		return "", "", fmt.Errorf("build %s: %w", binaryName, err)
	}
	return program, assets, nil
}
