package requestor

import (
	"math"
	"sync"
	"time"
)

// Constants that determine renewal times.
const (
	// share is the fraction of its lifetime after which a token is renewed at the earliest.
	share = 0.8
	// jitter is the maximum delay of a renewal, as a fraction of the time to the earliest renewal.
	jitter = 0.05
	// longestLifetime is the longest lifetime from which the renewal time is computed; longer lifetimes count as this one.
	longestLifetime = 24 * time.Hour
	// leastRemaining is the minimum lifetime that a new token must have. Otherwise it would have to be renewed at once.
	leastRemaining = time.Minute
	// step is the fractional part of the golden ratio. Its multiples fill the unit interval more evenly than multiples of any other
	// number, however many there are.
	step = 0.6180339887498949
)

// renewAfter returns the time from now until a token must be renewed. The argument remaining is the time for which the token is still
// valid. The argument fraction, in [0,1), is the position in the window of renewals.
func renewAfter(remaining time.Duration, fraction float64) time.Duration {
	base := share * float64(min(remaining, longestLifetime))
	return time.Duration(base + fraction*jitter*base)
}

// Spread returns positions in the window of renewals, each in [0,1). They fill the window evenly, so that tokens that are issued together
// are renewed at a steady rate. Random positions would do so only on average. All methods may be called concurrently.
type Spread struct {
	mu   sync.Mutex
	next float64
}

// NewSpread returns a Spread that starts at a position in [0,1). Processes with different starts do not renew at the same times.
func NewSpread(start float64) *Spread { return &Spread{next: start} }

// Next returns the next position.
func (s *Spread) Next() float64 {
	s.mu.Lock()
	defer s.mu.Unlock()
	place := s.next
	_, s.next = math.Modf(place + step)
	return place
}
