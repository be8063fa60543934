// Package repair delays the repair of an object that another client keeps changing. Without a delay, the two clients would write in turns
// without end.
package repair

import (
	"slices"
	"time"
)

const (
	// After limit repairs within window, repairs pause.
	limit  = 3
	window = time.Minute
	// The first pause takes firstPause. Each further pause is twice as long as the one before it, up to LongestPause.
	firstPause = 10 * time.Second
	// LongestPause is the longest pause. The pauses are short again if no pause has followed for twice this time.
	LongestPause = 5 * time.Minute
)

// Backoff counts the repairs of one object. Nil is the Backoff of an object that was not repaired. It is immutable.
type Backoff struct {
	cause   string
	repairs []time.Time
	pause   time.Duration
	until   time.Time
}

// Repaired returns the back-off after one more repair, and the pause that must follow; zero for none. Only repairs with the same
// cause are counted together: for example repairs that restore the same state, or that follow changes of the same field manager.
func (b *Backoff) Repaired(cause string, now time.Time) (*Backoff, time.Duration) {
	if b == nil || b.cause != cause || !b.until.IsZero() && now.Sub(b.until) > 2*LongestPause {
		b = &Backoff{cause: cause}
	}
	recent := slices.DeleteFunc(slices.Clone(b.repairs), func(at time.Time) bool { return now.Sub(at) >= window })
	next := &Backoff{cause: cause, repairs: append(recent, now), pause: b.pause, until: b.until}
	if len(next.repairs) < limit {
		return next, 0
	}
	next.repairs, next.pause = nil, min(max(2*b.pause, firstPause), LongestPause)
	next.until = now.Add(next.pause)
	return next, next.pause
}

// Remaining returns how long the next repair must wait; zero if it need not.
func (b *Backoff) Remaining(now time.Time) time.Duration {
	if b == nil {
		return 0
	}
	return max(b.until.Sub(now), 0)
}

// Cause returns the cause of the last repair, "" if there was none.
func (b *Backoff) Cause() string {
	if b == nil {
		return ""
	}
	return b.cause
}

// Pause returns the length of the last pause, zero if there was none.
func (b *Backoff) Pause() time.Duration {
	if b == nil {
		return 0
	}
	return b.pause
}
