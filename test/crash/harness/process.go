package harness

import (
	"context"
	"errors"
	"fmt"
	"net/url"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/go-logr/logr"
	"github.com/go-logr/logr/funcr"
	"github.com/prometheus/client_golang/prometheus"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	utilnet "k8s.io/apimachinery/pkg/util/net"

	"github.com/espalier-dev/espalier/internal/config"
	"github.com/espalier-dev/espalier/internal/managedresource"
	"github.com/espalier-dev/espalier/internal/process"
	"github.com/espalier-dev/espalier/test/local"
)

// Process is a controller that runs within the test's process, without state of an earlier one.
type Process struct {
	Gate *Gate

	cancel context.CancelFunc
	done   chan struct{}
	err    error
	log    *log
}

// StartProcess starts a controller behind a gate, with a clock. Failure returns its error.
func StartProcess(ctx context.Context, cfg *config.ResourceManagerConfiguration, gate *Gate, clk *Clock) *Process {
	ctx, cancel := context.WithCancel(ctx)
	p := &Process{Gate: gate, cancel: cancel, done: make(chan struct{}), log: &log{}}
	go func() {
		defer close(p.done)
		p.err = p.run(ctx, cfg, clk)
	}()
	return p
}

func (p *Process) run(ctx context.Context, cfg *config.ResourceManagerConfiguration, clk *Clock) error {
	needs, err := managedresource.Needs(cfg)
	if err != nil {
		return fmt.Errorf("prepare controller: %w", err)
	}
	needs.SkipNameValidation = true
	setup := &process.Setup{
		Program: process.Program{Name: "managedresource-controller", SharesLease: true}, Config: cfg.Process(),
		Log: p.log.logger(), WrapTransport: p.Gate.Wrap, Clock: clk,
	}
	clusters, err := prepare(ctx, setup, needs, cfg)
	for err != nil && starting(err) && !p.Gate.Dead() && local.Pause(ctx, restartPause) == nil { // a process that cannot start is restarted
		setup.Log.Info("Could not start", "reason", err.Error())
		clusters, err = prepare(ctx, setup, needs, cfg)
	}
	if err != nil {
		return err
	}
	return clusters.Start(ctx)
}

// prepare does everything that a process does before it starts to work.
func prepare(
	ctx context.Context, setup *process.Setup, needs process.Needs, cfg *config.ResourceManagerConfiguration,
) (*process.Clusters, error) {
	clusters, err := setup.Connect(ctx, needs)
	if err != nil {
		return nil, fmt.Errorf("connect controller: %w", err)
	}
	if err := managedresource.Add(ctx, clusters, cfg, prometheus.NewRegistry()); err != nil {
		return nil, fmt.Errorf("add controllers: %w", err)
	}
	return clusters, nil
}

// restartPause is the pause before a process that could not start is restarted.
const restartPause = 100 * time.Millisecond

// starting reports whether an API server was stopping or starting, or too slow to answer a request: one that has not read its roles yet
// refuses everything. The error of a cut never counts, nor does a deadline that passes outside of a request.
func starting(err error) bool {
	var broken *url.Error
	return apierrors.IsForbidden(err) || utilnet.IsConnectionRefused(err) || errors.As(err, &broken) && broken.Timeout() ||
		brokenOff(err) || apierrors.IsServiceUnavailable(err)
}

// Stop cuts the process off and returns without waiting. The process may run for a moment, but cannot send requests.
func (p *Process) Stop() {
	p.Gate.Kill()
	p.cancel()
}

// Wait waits until a process that was stopped has ended.
func (p *Process) Wait() { <-p.done }

// Failure returns an error if the process ended without being stopped or cut off, or if it panicked.
func (p *Process) Failure() error {
	if complaints := p.log.complaints(); len(complaints) > 0 {
		return fmt.Errorf("the controller logged: %s", strings.Join(complaints, "\n"))
	}
	select {
	case <-p.done:
		if !p.Gate.Dead() {
			return fmt.Errorf("the controller ended: %w", p.err)
		}
	default:
	}
	return nil
}

// log keeps the lines of a process's log, and those about a panic.
type log struct {
	mu            sync.Mutex
	lines, panics []string
}

// keptLines is how many lines are shown.
const keptLines = 60

func (l *log) logger() logr.Logger {
	return funcr.New(func(prefix, args string) {
		l.mu.Lock()
		defer l.mu.Unlock()
		line := prefix + " " + args
		l.lines = append(l.lines, line)
		if strings.Contains(strings.ToLower(line), "panic") {
			l.panics = append(l.panics, line)
		}
	}, funcr.Options{LogTimestamp: true, Verbosity: 1})
}

func (l *log) complaints() []string {
	l.mu.Lock()
	defer l.mu.Unlock()
	return slices.Clone(l.panics)
}

func (l *log) tail() string {
	l.mu.Lock()
	defer l.mu.Unlock()
	before := max(0, len(l.lines)-keptLines)
	return fmt.Sprintf("(%d lines before)\n%s", before, strings.Join(l.lines[before:], "\n"))
}
