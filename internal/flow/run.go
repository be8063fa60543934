package flow

import (
	"context"
	"errors"
	"time"

	"k8s.io/utils/clock"
)

// Options are the settings of a run.
type Options struct {
	// Clock gives the times of the status. Required.
	Clock clock.PassiveClock
	// Report takes the status of the run. The first report comes after ReportDelay and after the first tasks have started. Each further
	// report has the newest status, if the status has changed since the last report. Calls come from one goroutine, one after the other, with
	// the context of the run, which may have ended. Report does not delay the tasks. Nil: no reports.
	Report func(ctx context.Context, status Status)
	// ReportInterval is the shortest time between the end of one report and the start of the next. A report that is pending
	// when the flow ends does not wait for it. 0: a report comes as soon as the one before has ended.
	ReportInterval time.Duration
	// ReportDelay is the time from the start of the run to the first report. A flow that ends earlier reports nothing, so that a flow that
	// changes nothing causes no write. 0: the first report comes at once.
	ReportDelay time.Duration
}

// GardenReportInterval is the Options.ReportInterval of the flows of a Garden: each report is a write of its status.
const GardenReportInterval = 5 * time.Second

// errExited is the error for a function that has called runtime.Goexit, which ends its goroutine before the function returns a result.
var errExited = errors.New("goroutine ended without a result")

// Run runs the flow and returns its last status. A task starts as soon as all tasks that it depends on have succeeded. If a task fails,
// only the tasks that depend on it, directly or through other tasks, do not start. After the end of the context no task starts. In each
// case Run returns when all tasks and reports that it started have returned.
//
// The error is nil if all tasks succeeded or were skipped, and a TaskErrors if tasks failed. If the end of the context kept a task from
// starting, the error wraps the cause of that end, and the TaskErrors too if tasks failed. A panic of Options.Report stops only the
// reports, and is part of the error.
func (f *Flow) Run(ctx context.Context, o Options) (Status, error) {
	x := newExecution(f, o.Clock.Now())
	over := make(chan struct{})
	changes := make(chan func())
	change := func(what func()) {
		select {
		case changes <- what:
		case <-over:
		}
	}
	reports := startReports(ctx, o)

	running := 0
	for {
		started := x.startReady(ctx, o.Clock.Now())
		for _, task := range started {
			reporting := OnWait(ctx, func(sentence string) {
				change(func() { x.waitsFor(task, sentence) })
			})
			go f.work(reporting, task, func(err error) {
				change(func() { x.finish(task, err, o.Clock.Now()); running-- })
			})
		}
		running += len(started)
		reports.publish(x.status())
		if running == 0 {
			break
		}
		(<-changes)()
	}
	close(over)

	err := x.err(context.Cause(ctx))
	if reportErr := reports.end(); reportErr != nil {
		err = errors.Join(err, reportErr)
	}
	return x.status(), err
}

// startReady marks the tasks that may start as running and returns them. After the end of the context it returns none.
func (x *execution) startReady(ctx context.Context, now time.Time) []int {
	ready := x.ready()
	if len(ready) > 0 && ctx.Err() != nil {
		x.cancelled = true
		return nil
	}
	for _, task := range ready {
		x.enter(task, Running, "", now)
	}
	return ready
}

// work runs one task and passes its result to finish, even if the task panics or ends its goroutine.
func (f *Flow) work(ctx context.Context, task int, finish func(error)) {
	err := errExited
	defer func() { finish(err) }()
	err = guard(func() error { return f.tasks[task].Run(ctx) })
}
