// Command webhook measures webhook-server on a real control plane and prints the figures with their targets:
//
//	go run ./test/bench/webhook [-smoke] [-enforce] [-profile file]
//
// Reviews are those that the API server itself sends about a Pod of 5 containers with 10 variables each, a Deployment, a
// HorizontalPodAutoscaler, an EndpointSlice, a Secret and a Worker: it first calls a recorder. They are then sent to the server, a separate
// process with all handlers enabled, by one HTTP/2 client over TLS on loopback, in bursts of ten that share one connection. Processor time
// is the server's, from the kernel; allocations are from its metrics. In the same run, a floor is measured: a server of the same library
// that reads the same bodies and allows everything.
//
// The last part creates Pods through the API server, alternately with and without webhooks; then again with floors instead of the server:
// one that returns the server's patches, which shows the cost of the API server, and one that allows everything.
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
	autoscalers, namespaces, nodes int
	// load is the duration of each rate, single is the duration of the measurement of each handler.
	load, single time.Duration
	pods         int
	// profile is the file for a CPU profile under the higher rate; empty for none.
	profile string
}

// report is the format of the figures.
var report = gauge.Report{Decimals: 3}

func main() {
	ctrl.SetLogger(logr.Discard()) // errors are returned
	klog.SetLogger(logr.Discard())
	smoke := flag.Bool("smoke", false, "a workload of seconds, to see that everything still works")
	enforce := flag.Bool("enforce", false, "exit with 1 if a target is missed")
	profile := flag.String("profile", "", "file for a profile of the server's processor time at the higher rate")
	floor := flag.String("floor", "", "serve as floor at this address (used by the benchmark itself)")
	certificates := flag.String("certificates", "", "folder of the floor's certificate")
	answers := flag.String("answers", "", "file of the patches that the floor answers with; empty for none")
	flag.Parse()
	s := size{autoscalers: 5000, namespaces: 1000, nodes: 1000, load: 20 * time.Second, single: 5 * time.Second, pods: 400}
	if *smoke {
		s = size{autoscalers: 50, namespaces: 10, nodes: 10, load: time.Second, single: 300 * time.Millisecond, pods: 20}
	}
	s.profile = *profile
	ctx, cancel := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	var met bool
	var err error
	if *floor != "" {
		met, err = true, serveFloor(ctx, *floor, *certificates, *answers)
	} else {
		met, err = run(ctx, s)
	}
	cancel()
	os.Exit(gauge.Status(met, *enforce, err))
}

// run measures everything, and reports whether all targets are met.
func run(ctx context.Context, s size) (met bool, err error) {
	b, err := newBench(ctx, s.profile != "")
	if err != nil {
		return false, err
	}
	defer func() { err = errors.Join(err, b.close()) }()
	err = b.fill(ctx, s)
	if err != nil {
		return false, err
	}
	recorded, err := b.record(ctx)
	if err != nil {
		return false, err
	}
	started, err := b.startServer(ctx)
	if err != nil {
		return false, err
	}
	met = report.Show("start until ready, in s", started.Seconds(), 2)
	memory, _, err := gauge.Memory(b.server.ID)
	if err != nil {
		return false, err
	}
	met = report.Show(fmt.Sprintf("memory with %d HPAs, %d namespaces, %d nodes, in MiB", s.autoscalers, s.namespaces, s.nodes), memory, 60) && met
	loads, err := b.loads(ctx, s, recorded)
	if err != nil {
		return false, err
	}
	alone, err := b.handlers(ctx, s, recorded)
	if err != nil {
		return false, err
	}
	memory, _, err = gauge.Memory(b.server.ID)
	if err != nil {
		return false, err
	}
	report.Inform("memory after these loads, in MiB", memory)
	pods, err := b.podCreation(ctx, s, recorded)
	return met && loads && alone && pods, err
}
