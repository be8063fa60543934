package harness

import (
	"context"
	"fmt"
	"runtime"
	"time"

	"golang.org/x/sync/errgroup"

	"github.com/espalier-dev/espalier/test/local"
)

// Check ends the job if there is an error. As in a test, it ends the goroutine that calls it, after its deferred functions; the context of
// the run ends too, so that the other goroutines of the job stop soon. The error of the job is the first such error.
func (r *Run) Check(err error) {
	if err != nil {
		r.cancel(err) // it keeps the first error
		runtime.Goexit()
	}
}

// Checkf is like Check, and adds a prefix to the error.
func (r *Run) Checkf(err error, format string, args ...any) {
	if err != nil {
		r.Check(fmt.Errorf("%s: %w", fmt.Sprintf(format, args...), err))
	}
}

// Within adds a prefix to the error of a job that has failed. Call it with defer: in the goroutine of the job, or in at most one task of
// Together.
func (r *Run) Within(format string, args ...any) {
	if r.Ctx.Err() != nil {
		r.within = fmt.Sprintf(format, args...) + ": " + r.within
	}
}

// Parallel calls do for every number below n, in that order, with that many calls at a time.
func (r *Run) Parallel(n, inFlight int, do func(int)) {
	var workers errgroup.Group
	workers.SetLimit(inFlight)
	for i := 0; i < n && r.Ctx.Err() == nil; i++ {
		workers.Go(func() error {
			do(i)
			return nil
		})
	}
	r.Check(workers.Wait())
	r.Check(context.Cause(r.Ctx))
}

// Timed returns the time that Parallel takes.
func (r *Run) Timed(n, inFlight int, do func(int)) time.Duration {
	begin := time.Now()
	r.Parallel(n, inFlight, do)
	return time.Since(begin)
}

// Together runs all tasks at the same time.
func (r *Run) Together(tasks ...func()) {
	r.Parallel(len(tasks), len(tasks), func(i int) { tasks[i]() })
}

// Await waits until probe succeeds.
func (r *Run) Await(limit time.Duration, what string, probe func(context.Context) error) {
	r.Check(local.Await(r.Ctx, limit, what, probe))
}

// Pause waits for a duration.
func (r *Run) Pause(d time.Duration) { r.Check(local.Pause(r.Ctx, d)) }
