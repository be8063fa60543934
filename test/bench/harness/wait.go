package harness

import (
	"context"
	"time"

	"golang.org/x/sync/errgroup"
)

// Parallel calls do for every number below n, in that order, with that many calls at a time.
func Parallel(ctx context.Context, n, inFlight int, do func(context.Context, int) error) error {
	group, ctx := errgroup.WithContext(ctx)
	group.SetLimit(inFlight)
	for i := 0; i < n && ctx.Err() == nil; i++ {
		group.Go(func() error { return do(ctx, i) })
	}
	return group.Wait()
}

// Timed returns the time that Parallel takes.
func Timed(ctx context.Context, n, inFlight int, do func(context.Context, int) error) (time.Duration, error) {
	begin := time.Now()
	err := Parallel(ctx, n, inFlight, do)
	return time.Since(begin), err
}

// InOrder runs steps until one fails.
func InOrder(ctx context.Context, steps ...func(context.Context) error) error {
	for _, step := range steps {
		if err := step(ctx); err != nil {
			return err
		}
	}
	return nil
}
