package flow

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"
)

// Changes wakes the tasks that wait for a change of something. The event handlers of a watch call Notify; each task that
// waits with these Changes then checks again. The zero value is ready for use.
type Changes struct {
	lock sync.Mutex
	// next is closed by the next Notify. It is nil while no task waits.
	next chan struct{}
}

// Notify wakes all waiting tasks. It never blocks, and any goroutine may call it.
func (c *Changes) Notify() {
	c.lock.Lock()
	defer c.lock.Unlock()
	if c.next != nil {
		close(c.next)
		c.next = nil
	}
}

// wake returns a channel that the next Notify closes. It is nil if there are no Changes.
func (c *Changes) wake() <-chan struct{} {
	if c == nil {
		return nil
	}
	c.lock.Lock()
	defer c.lock.Unlock()
	if c.next == nil {
		c.next = make(chan struct{})
	}
	return c.next
}

// Wait says when a check is repeated. It needs Changes or an Interval.
type Wait struct {
	// Changes repeats the check after each change. Changes during a check repeat it once. Nil: only the Interval does.
	Changes *Changes
	// Interval repeats the check that long after it failed. It is for attempts that fail for reasons of which no watch
	// reports the end, such as requests to an API server that starts. 0: only Changes do.
	Interval time.Duration
	// Timeout ends the wait. 0: only the context does.
	Timeout time.Duration
}

// Until repeats a check until it returns nil. The error of a check says what is still missing: Until passes it to
// waitingFor, and takes it back at success.
//
// The context of the check ends with the timeout. Until then returns a TimeoutError with the error of the last check that
// ended before the timeout, or of the first check if none did. If its own context ends, it returns the cause of that and the
// error of the last check.
func (w Wait) Until(ctx context.Context, waitingFor WaitingFor, check func(ctx context.Context) error) error {
	if w.Changes == nil && w.Interval <= 0 {
		return errors.New("wait has neither changes nor an interval")
	}
	bounded, cancel := ctx, func() {}
	if w.Timeout > 0 {
		bounded, cancel = context.WithTimeout(ctx, w.Timeout)
	}
	defer cancel()

	var last error
	for {
		// Taken before the check, so that a change during the check is not missed.
		changed := w.Changes.wake()
		err := check(bounded)
		if err == nil {
			waitingFor("")
			return nil
		}
		if last == nil || bounded.Err() == nil {
			last = err
		}
		waitingFor(last.Error())

		select {
		case <-changed:
		case <-w.elapsed():
		case <-bounded.Done():
		}
		switch {
		case ctx.Err() != nil:
			return fmt.Errorf("%w while waiting: %w", context.Cause(ctx), last)
		case bounded.Err() != nil:
			return &TimeoutError{Timeout: w.Timeout, Err: last}
		}
	}
}

// elapsed returns a channel that receives a value after the interval, or nil if there is none.
func (w Wait) elapsed() <-chan time.Time {
	if w.Interval <= 0 {
		return nil
	}
	return time.After(w.Interval)
}
