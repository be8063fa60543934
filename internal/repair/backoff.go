// Package repair delays the repair of an object that another client changes again and again. Without a delay, the two clients would write
// in turns without end.
package repair

import (
	"slices"
	"time"
)

const (
	// After limit repairs within window, repairs pause.
	limit  = 3
	window = time.Minute
	// firstPause is the length of the first pause. Each further pause is twice as long as the one before it, up to LongestPause.
	firstPause = 10 * time.Second
	// LongestPause is the length of the longest pause. If no pause follows for twice this time, the next one is as long as the first again.
	LongestPause = 5 * time.Minute
)

// Backoff counts the repairs of one object. Nil is the Backoff of an object without repairs. A Backoff is immutable.
type Backoff struct {
	cause   string
	repairs []time.Time
	pause   time.Duration
	until   time.Time
}

// Repaired returns the Backoff after one more repair, and the pause that must follow; the pause is zero if none must follow. Only repairs
// with the same cause are counted together, for example repairs that restore the same state, or that follow changes of the same field
// manager.
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

// Remaining returns how long the next repair must wait; zero if it may begin.
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
