package flow

import (
	"context"
	"fmt"
	"time"
)

// reports passes statuses on to Options.Report in a goroutine of its own.
type reports struct {
	// latest holds the newest status that was not reported yet.
	latest chan Status
	// over is closed when the flow has ended.
	over chan struct{}
	// ended receives one value when the goroutine has nothing left to do.
	ended chan error
}

func startReports(ctx context.Context, o Options) *reports {
	r := &reports{latest: make(chan Status, 1), over: make(chan struct{}), ended: make(chan error, 1)}
	if o.Report == nil {
		r.ended <- nil
		return r
	}
	go func() {
		err := errExited
		defer func() { r.ended <- err }()
		err = r.run(ctx, o)
	}()
	return r
}

// publish replaces the status that is to be reported next. It does not block, as long as only one goroutine calls it.
func (r *reports) publish(status Status) {
	select {
	case <-r.latest:
	default:
	}
	r.latest <- status
}

// end waits until the last status is reported, and returns the panic of a report as an error.
func (r *reports) end() error {
	close(r.over)
	close(r.latest)
	return <-r.ended
}

func (r *reports) run(ctx context.Context, o Options) error {
	if !r.pause(o.ReportDelay) {
		return nil
	}
	var last Status
	for status := range r.latest {
		if status.equal(last) {
			continue
		}
		err := guard(func() error {
			o.Report(ctx, status)
			return nil
		})
		if err != nil {
			return fmt.Errorf("report progress: %w", err)
		}
		last = status
		r.pause(o.ReportInterval)
	}
	return nil
}

// pause waits for the duration, or until the flow ends. It reports whether the whole duration passed.
func (r *reports) pause(duration time.Duration) bool {
	if duration <= 0 {
		return true
	}
	select {
	case <-time.After(duration):
		return true
	case <-r.over:
		return false
	}
}
