package local

import (
	"context"
	"errors"
	"fmt"
	"time"
)

// endedError is an error of a probe after which Await stops.
type endedError struct{ error }

// GiveUp returns an error with which a probe stops Await.
func GiveUp(err error) error { return endedError{err} }

// Pause waits for a duration, or until the context ends.
func Pause(ctx context.Context, d time.Duration) error {
	select {
	case <-ctx.Done():
		return context.Cause(ctx)
	case <-time.After(d):
		return nil
	}
}

// Await calls probe until it succeeds, or until the limit. The error contains the awaited state, what, and the last error of probe.
func Await(ctx context.Context, limit time.Duration, what string, probe func(context.Context) error) error {
	return AwaitEvery(ctx, probeInterval, limit, what, probe)
}

// AwaitEvery is like Await, with another pause between two calls.
func AwaitEvery(ctx context.Context, pause, limit time.Duration, what string, probe func(context.Context) error) error {
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
		if Pause(limited, pause) == nil {
			continue
		}
		if ctx.Err() != nil {
			return fmt.Errorf("wait for %s: %w: %w", what, context.Cause(ctx), err)
		}
		return fmt.Errorf("wait for %s: not within %s: %w", what, limit, err)
	}
}
