// Command node measures node-controller: the time from when the last critical Pod of a Node is ready until its taint is removed, while very
// many Nodes join. It starts a control plane with KWOK, and the real binary with its own role. The floor of the same run is a bare client
// that removes another taint from some of the Nodes as soon as its own watch shows that the last Pod is ready, without any check. All
// processes end with the command.
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
	"path/filepath"
	"syscall"
	"time"

	"github.com/go-logr/logr"
	"k8s.io/client-go/kubernetes"
	"k8s.io/klog/v2"
	"k8s.io/utils/clock"
	ctrl "sigs.k8s.io/controller-runtime"

	"github.com/espalier-dev/espalier/test/local"
)

// limit is how long a run may take.
const limit = 20 * time.Minute

// options are those of a run.
type options struct {
	// nodes is the number of Nodes for node-controller; for every ten of them there is an additional one for the bare client.
	nodes int
	// daemonSets is the number of critical DaemonSets; each has a Pod on every Node.
	daemonSets int
	// rate is how many Nodes join per second; 0: as fast as the API server accepts them.
	rate float64
	// ownPods makes the benchmark create the Pods itself, instead of the DaemonSet controller and the scheduler.
	ownPods bool
	// enforce makes the command fail if a target is missed.
	enforce bool
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
	flags := flag.NewFlagSet("node", flag.ContinueOnError)
	flags.SetOutput(out)
	flags.IntVar(&o.nodes, "nodes", 1000, "`number` of Nodes that join")
	flags.IntVar(&o.daemonSets, "daemonsets", 5, "`number` of critical DaemonSets")
	flags.Float64Var(&o.rate, "rate", 0, "Nodes that join in a second; 0: as fast as the API server takes them")
	flags.BoolVar(&o.ownPods, "own-pods", false, "create the Pods here, instead of by DaemonSet controller and scheduler")
	flags.BoolVar(&o.enforce, "enforce", false, "fail if a target is missed")
	smoke := flags.Bool("smoke", false, "a tiny workload, to see that it works")
	if err := flags.Parse(args); err != nil {
		return options{}, err
	}
	if *smoke {
		o.nodes = 20
	}
	if o.nodes < 1 || o.daemonSets < 1 || o.rate < 0 {
		return options{}, errors.New("-nodes and -daemonsets must be at least 1, -rate at least 0")
	}
	return o, nil
}

func run(ctx context.Context, args []string, out io.Writer) (err error) {
	o, err := parse(args, out)
	if err != nil {
		return err
	}
	ctx, cancel := context.WithTimeoutCause(ctx, limit, fmt.Errorf("not finished within %s", limit))
	defer cancel()
	dir, err := os.MkdirTemp("", "espalier-bench-node-")
	if err != nil {
		return fmt.Errorf("create folder: %w", err)
	}
	defer func() { err = errors.Join(err, os.RemoveAll(dir)) }()
	binary, assets, err := build(ctx, dir, out)
	if err != nil {
		return err
	}
	plane, err := local.Start(ctx, local.Options{
		Dir: filepath.Join(dir, "plane"), Assets: assets, AuditPolicy: []byte(auditPolicy),
		KWOK: true, ControllerManager: true, Scheduler: !o.ownPods,
	})
	if err != nil {
		return fmt.Errorf("start control plane: %w", err)
	}
	defer func() { err = errors.Join(err, plane.Stop()) }()
	controller, err := startController(ctx, plane, dir, binary)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, controller.Stop(stopGrace)) }()
	clients, err := kubernetes.NewForConfig(plane.AdminConfig())
	if err != nil {
		return fmt.Errorf("create client: %w", err)
	}
	b := &bench{options: o, clients: clients, clock: clock.RealClock{}, out: out}
	if err = b.join(ctx); err != nil {
		return errors.Join(err, controller.Failure())
	}
	requests, err := countRequests(plane.AuditLog())
	if err != nil {
		return err
	}
	return b.report(requests, peakMemory(controller.ID))
}
