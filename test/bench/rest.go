package main

import (
	"context"
	"fmt"
	"time"

	"github.com/espalier-dev/espalier/test/bench/gauge"
)

// quietFor is the number of calm intervals without a counted request of the controller before the idle window starts; quietLimit is the
// maximum wait for that.
const (
	quietFor   = 5
	quietLimit = 2 * time.Minute
)

// restFigures are the costs of the controller while nothing happens.
type restFigures struct {
	window time.Duration
	// managed are requests about objects of the sets, other are all others except watches and leases.
	managed, other int
	cpu            time.Duration
	memory         int64
}

// perMinute scales a number of the window to a minute.
func (r restFigures) perMinute(n float64) float64 {
	if r.window <= 0 {
		return 0
	}
	return n / r.window.Minutes()
}

func (b *bench) atRest(ctx context.Context, f *figures) error {
	if err := b.settle(ctx); err != nil {
		return err
	}
	if err := b.quiet(ctx); err != nil {
		return err
	}
	b.report.step("at rest: a window of %s begins", b.rest)
	place, err := b.mark()
	if err != nil {
		return err
	}
	id := b.controller.process.ID
	before, err := cpuTime(id)
	if err != nil {
		return err
	}
	begin := b.report.clock.Now()
	err = gauge.Pause(ctx, b.rest)
	if err != nil {
		return err
	}
	after, err := cpuTime(id)
	if err != nil {
		return err
	}
	r := restFigures{window: b.report.clock.Since(begin), cpu: after - before}
	requests, err := b.requests(place, controllerUser)
	if err != nil {
		return err
	}
	if r.memory, err = memoryOf(id, "VmRSS"); err != nil {
		return err
	}
	r.managed = count(requests, func(q request) bool { return counted(q) && q.isManaged() })
	r.other = count(requests, func(q request) bool { return counted(q) && !q.isManaged() })
	f.rest = r
	b.report.step("at rest: %.1f requests a minute to managed objects, %.1f others, CPU %.2f s a minute, %.0f MiB",
		r.perMinute(float64(r.managed)), r.perMinute(float64(r.other)), r.perMinute(r.cpu.Seconds()), float64(r.memory)/(1<<20))
	b.report.detail("counted: %s", summary(requests, counted))
	b.report.detail("not counted: %s", summary(requests, func(q request) bool { return !counted(q) }))
	b.profile(ctx, "rest", min(time.Minute, b.rest))()
	return nil
}

// quiet waits until the controller has sent no counted request for some time.
func (b *bench) quiet(ctx context.Context) error {
	begin := b.report.clock.Now()
	for {
		place, err := b.mark()
		if err != nil {
			return err
		}
		err = gauge.Pause(ctx, quietFor*b.calm)
		if err != nil {
			return err
		}
		requests, err := b.requests(place, controllerUser)
		if err != nil {
			return err
		}
		if count(requests, counted) == 0 {
			return nil
		}
		if b.report.clock.Since(begin) > quietLimit {
			b.report.detail("not quiet after %s: %s within %s", quietLimit, summary(requests, counted), quietFor*b.calm)
			return nil
		}
	}
}

// restart measures from the start of a new process until it has determined that everything is in sync, and counts its reads.
func (b *bench) restart(ctx context.Context, f *figures) error {
	if err := b.settle(ctx); err != nil {
		return err
	}
	begin := b.report.clock.Now()
	if err := b.controller.stop(); err != nil {
		return fmt.Errorf("restart: %w", err)
	}
	stopped := b.report.clock.Since(begin)
	place, err := b.mark()
	if err != nil {
		return err
	}
	begin = b.report.clock.Now()
	err = b.controller.start()
	if err != nil {
		return fmt.Errorf("restart: %w", err)
	}
	profiled := b.profile(ctx, "restart", 3*time.Second)
	err = b.controller.inSync(ctx, b.size.total())
	if err != nil {
		return fmt.Errorf("restart: %w", err)
	}
	f.restart = b.report.clock.Since(begin)
	used := b.usage()[binaryName]
	err = gauge.Pause(ctx, 2*time.Second) // later requests also belong to the restart
	if err != nil {
		return err
	}
	profiled()
	requests, err := b.requests(place, controllerUser)
	if err != nil {
		return err
	}
	f.restartReads = count(requests, func(q request) bool { return q.isManaged() && q.Verb == "get" })
	f.restartWrites = count(requests, func(q request) bool { return q.isManaged() && q.isWrite() })
	b.report.step("restart: stopped within %s, in sync %s after its start, with %.2f s of CPU", seconds(stopped), seconds(f.restart), used.Seconds())
	b.report.detail("requests: %s", summary(requests, counted))
	b.report.detail("watches and leases: %s", summary(requests, func(q request) bool { return !counted(q) }))
	return nil
}
