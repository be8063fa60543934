package flow

import (
	"context"
	"fmt"
	"sync"
	"time"
)

// observer is the context key of the function to which ReportWait passes its sentences.
type observer struct{}

// ReportWait reports the condition that the task of a context waits for, as one sentence. An empty sentence means that the task no longer
// waits. Any goroutine may call ReportWait. A call after the task has ended, or with a context that belongs to no task, has no effect.
func ReportWait(ctx context.Context, sentence string) {
	if observe, observed := ctx.Value(observer{}).(func(string)); observed {
		observe(sentence)
	}
}

// OnWait returns a context for which ReportWait calls observe, and then does the same as for the given context.
func OnWait(ctx context.Context, observe func(sentence string)) context.Context {
	return context.WithValue(ctx, observer{}, func(sentence string) {
		observe(sentence)
		ReportWait(ctx, sentence)
	})
}

// Changes wakes the tasks that wait for a change of an object. The event handlers of a watch call Notify. Then each task that waits in the
// method Until of the same Changes checks again. The zero value is ready for use; nil is not allowed.
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

// wake returns a channel that the next Notify closes.
func (c *Changes) wake() <-chan struct{} {
	c.lock.Lock()
	defer c.lock.Unlock()
	if c.next == nil {
		c.next = make(chan struct{})
	}
	return c.next
}

// Until repeats a check after each change until the check returns nil. Several changes during a check repeat the check only once. The
// error of a check names the missing condition: Until passes the text of this error to ReportWait, and passes an empty text when the check
// succeeds.
//
// The timeout ends the wait and the context of the check; 0: there is no timeout. After the timeout, Until returns a TimeoutError. It
// contains the error of the last check that ended before the timeout, or of the first check if no check ended before. If ctx ends, Until
// returns the cause of that end and the error of the last check that ended before, or of the first check.
func (c *Changes) Until(ctx context.Context, timeout time.Duration, check func(ctx context.Context) error) error {
	bounded, cancel := ctx, func() {}
	if timeout > 0 {
		bounded, cancel = context.WithTimeout(ctx, timeout)
	}
	defer cancel()

	var last error
	for {
		// Taken before the check, so that a change during the check is not missed.
		changed := c.wake()
		err := check(bounded)
		if err == nil {
			ReportWait(ctx, "")
			return nil
		}
		if last == nil || bounded.Err() == nil {
			last = err
		}
		ReportWait(ctx, last.Error())

		select {
		case <-changed:
		case <-bounded.Done():
		}
		switch {
		case ctx.Err() != nil:
			return fmt.Errorf("%w while waiting: %w", context.Cause(ctx), last)
		case bounded.Err() != nil:
			return &TimeoutError{Timeout: timeout, Err: last}
		}
	}
}
