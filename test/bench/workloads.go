package main

import (
	"context"
	"errors"
	"fmt"
	"time"
)

// workload is a number of sets with objects that go through every phase.
type workload struct {
	size
	// twoClusters puts the sets into another cluster than their objects.
	twoClusters bool
	// rest is the length of the idle window.
	rest time.Duration
	// repairs is how many objects are changed, one after the other.
	repairs int
	// calm is the length of an interval without activity that counts as idle.
	calm time.Duration
}

func (w workload) String() string {
	if w.twoClusters {
		return w.size.String() + ", 2 clusters"
	}
	return w.size.String()
}

// workloads are measured one after the other, each on its own control planes, and are shown together in the table.
type workloads []workload

func (all workloads) run(ctx context.Context, r runner) ([]row, error) {
	measured := make([]figures, 0, len(all))
	var failures []error
	for _, w := range all {
		f, err := w.measure(ctx, r)
		measured = append(measured, f)
		if err != nil {
			failures = append(failures, fmt.Errorf("measure %s: %w", w, err))
		}
		if ctx.Err() != nil {
			break
		}
	}
	return rowsOf(measured), errors.Join(failures...)
}

// measure returns the figures that could be measured, even with an error. Afterwards nothing is running, even after an error.
func (w workload) measure(ctx context.Context, r runner) (f figures, err error) {
	f = figures{workload: w}
	r.report.say("")
	r.report.step("workload %s: starting the cluster (load average of the machine: %s)", w, load())
	b, err := open(ctx, r, setup{twoClusters: w.twoClusters, controllerManager: true, profiling: r.profiles != ""}, w)
	if err != nil {
		return f, err
	}
	defer func() { err = errors.Join(err, b.close()) }()
	err = b.do(ctx, func(ctx context.Context) error { return b.phases(ctx, &f) })
	r.report.step("workload %s: done, stopping everything", w)
	return f, err
}

// phases runs the phases in order; each starts in the state at the end of the one before.
func (b *bench) phases(ctx context.Context, f *figures) error {
	b.report.step("creating %d namespaces and starting the controller", 2*b.sets)
	if err := b.createNamespaces(ctx); err != nil {
		return err
	}
	if err := b.startController(ctx); err != nil {
		return err
	}
	for _, phase := range []func(context.Context, *figures) error{
		b.floor(1), b.converge, b.floor(2), b.atRest, b.drift, b.changeFloor, b.update, b.changeFloor, b.restart, b.remove, b.floor(3),
	} {
		if err := phase(ctx, f); err != nil {
			return err
		}
	}
	return nil
}

func (b *bench) floor(round int) func(context.Context, *figures) error {
	return func(ctx context.Context, f *figures) error {
		measured, err := b.measureFloor(ctx, round)
		if err != nil {
			return fmt.Errorf("measure bare client: %w", err)
		}
		f.floors = append(f.floors, measured)
		return nil
	}
}
