package harness

import (
	"sync/atomic"
	"time"

	"k8s.io/utils/clock"
)

// Clock is the real clock with an offset that may change during a run, as if a user set the system time. Timers do not change.
type Clock struct {
	clock.RealClock

	offset atomic.Int64
}

// Now implements clock.Clock.
func (c *Clock) Now() time.Time { return c.RealClock.Now().Add(time.Duration(c.offset.Load())) }

// Since implements clock.Clock.
func (c *Clock) Since(at time.Time) time.Duration { return c.Now().Sub(at) }

// Jump moves the clock forward, or back if by is negative.
func (c *Clock) Jump(by time.Duration) { c.offset.Add(int64(by)) }
