package harness

import (
	"context"
	"fmt"
	"runtime"
	"sync"
	"time"

	"github.com/espalier-dev/espalier/test/local"
)

// Check ends the job if there is an error. As in a test, it ends the goroutine that calls it, after its deferred functions; the context of
// the run ends too, so that the other goroutines of the job stop soon. The error of the job is the first one.
func (r *Run) Check(err error) {
	if err == nil {
		return
	}
	r.mu.Lock()
	if r.err == nil {
		r.err = err
	}
	r.mu.Unlock()
	r.cancel()
	runtime.Goexit()
}

// Checkf is Check for an error that gets a prefix.
func (r *Run) Checkf(err error, format string, args ...any) {
	if err != nil {
		r.Check(fmt.Errorf("%s: %w", fmt.Sprintf(format, args...), err))
	}
}

// Explain changes the error of a job that has failed. It is for defer, in the goroutine of the job.
func (r *Run) Explain(change func(error) error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.err != nil {
		r.err = change(r.err)
	}
}

// Within adds a prefix to the error of a job that has failed. It is for defer, in the goroutine of the job.
func (r *Run) Within(format string, args ...any) {
	r.Explain(func(err error) error { return fmt.Errorf("%s: %w", fmt.Sprintf(format, args...), err) })
}

// failure returns the error of the job so far.
func (r *Run) failure() error {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.err
}

// Parallel calls do for every number below n, in that order, with that many calls at a time.
func (r *Run) Parallel(n, inFlight int, do func(int)) {
	var workers sync.WaitGroup
	slots := make(chan struct{}, inFlight)
	for i := 0; i < n && r.Ctx.Err() == nil; i++ {
		slots <- struct{}{}
		workers.Go(func() {
			defer func() { <-slots }()
			do(i)
		})
	}
	workers.Wait()
	r.Check(context.Cause(r.Ctx)) // after a failure the context is cancelled, and the first error stays
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
