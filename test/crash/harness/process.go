package harness

import (
	"context"
	"errors"
	"fmt"
	"net/url"
	"slices"
	"strings"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	utilnet "k8s.io/apimachinery/pkg/util/net"

	"github.com/espalier-dev/espalier/test/binary"
	"github.com/espalier-dev/espalier/test/local"
)

// Process is a controller that runs in a goroutine of the test, without state of an earlier Process.
type Process struct {
	traffic

	env    *binary.Env
	cancel context.CancelFunc
	done   chan struct{}
	err    error
	log    *binary.Log
}

// start runs the controller in the background. Failure returns its error.
func (p *Process) start(ctx context.Context) {
	ctx, p.cancel = context.WithCancel(ctx)
	go func() {
		defer close(p.done)
		p.err = p.run(ctx)
	}()
}

func (p *Process) run(ctx context.Context) error {
	clusters, err := p.env.Connect(ctx)
	for err != nil && starting(err) && !p.Dead() && local.Pause(ctx, restartPause) == nil { // a process that cannot start is restarted
		p.env.Setup().Log.Info("Could not start", "reason", err.Error())
		clusters, err = p.env.Connect(ctx)
	}
	if err != nil {
		return fmt.Errorf("start controller: %w", err)
	}
	return clusters.Start(ctx)
}

// restartPause is the pause before a process that could not start is restarted.
const restartPause = 100 * time.Millisecond

// starting reports whether an error shows that an API server was stopping or starting (then it refuses all requests until it has read its
// roles), or too slow to answer a request. It returns false for the error of a cut, and for a deadline that passed outside of a request.
func starting(err error) bool {
	var broken *url.Error
	return apierrors.IsForbidden(err) || utilnet.IsConnectionRefused(err) || errors.As(err, &broken) && broken.Timeout() ||
		brokenOff(err) || apierrors.IsServiceUnavailable(err)
}

// Dead reports whether the process was cut off.
func (p *Process) Dead() bool { return p.env.Requests.IsCutOff() }

// Stop cuts the process off and returns without waiting. The process may run for a moment, but cannot send requests.
func (p *Process) Stop() {
	p.env.Requests.Disconnect()
	p.cancel()
}

// Wait waits until a process that was stopped has ended.
func (p *Process) Wait() { <-p.done }

// Failure returns an error if the process ended without being stopped or cut off.
func (p *Process) Failure() error {
	select {
	case <-p.done:
		if !p.Dead() {
			return fmt.Errorf("the controller ended: %w", p.err)
		}
	default:
	}
	return nil
}

// Panics returns an error if the process panicked.
func (p *Process) Panics() error {
	lines := slices.DeleteFunc(p.log.Containing(""), func(line string) bool { return !strings.Contains(strings.ToLower(line), "panic") })
	if len(lines) == 0 {
		return nil
	}
	return fmt.Errorf("the controller logged: %s", strings.Join(lines, "\n"))
}

// keptLines is how many lines of a log are shown.
const keptLines = 60

// tail returns the last lines of the log.
func (p *Process) tail() string {
	lines := p.log.Containing("")
	before := max(0, len(lines)-keptLines)
	return fmt.Sprintf("(%d lines before)\n%s", before, strings.Join(lines[before:], "\n"))
}
