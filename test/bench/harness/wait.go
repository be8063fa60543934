package harness

import (
	"context"
	"errors"
	"fmt"
	"time"

	"golang.org/x/sync/errgroup"
)

// probeInterval is the pause between two probes of a state.
const probeInterval = 50 * time.Millisecond

// Pause waits for a duration, or until the context ends.
func Pause(ctx context.Context, d time.Duration) error {
	select {
	case <-ctx.Done():
		return context.Cause(ctx)
	case <-time.After(d):
		return nil
	}
}

// endedError is an error of a probe that ends the wait.
type endedError struct{ error }

// GiveUp returns an error of a probe that ends the wait.
func GiveUp(err error) error { return endedError{err} }

// Await calls probe until it succeeds. The error contains the awaited state and the last error.
func Await(ctx context.Context, limit time.Duration, what string, probe func(context.Context) error) error {
	limited, cancel := context.WithTimeout(ctx, limit)
	defer cancel()
	for {
		err := probe(limited)
		if err == nil {
			return nil
		}
		if ended := (endedError{}); errors.As(err, &ended) {
			return fmt.Errorf("wait for %s: %w", what, err)
		}
		if Pause(limited, probeInterval) == nil {
			continue
		}
		if ctx.Err() != nil {
			return context.Cause(ctx)
		}
		return fmt.Errorf("wait for %s: not within %s: %w", what, limit, err)
	}
}

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
