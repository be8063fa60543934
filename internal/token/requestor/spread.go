package requestor

import (
	"math"
	"sync"
	"time"
)

// What renewal times are made of.
const (
	// share is the part of its lifetime after which a token is renewed at the earliest.
	share = 0.8
	// jitter is by how much of that a renewal may be later.
	jitter = 0.05
	// longestLifetime is what longer lifetimes count as.
	longestLifetime = 24 * time.Hour
	// leastRemaining is what must be left of a token when it is issued. Its renewal time would be over at once, else.
	leastRemaining = time.Minute
	// step is the fraction of the golden ratio: multiples of it fill the unit interval more evenly than anything else does,
	// however many there are.
	step = 0.6180339887498949
)

// renewAfter returns how long after now a token is renewed that lives for as long as remaining. Fraction, in [0,1), is
// the place in the window of renewals.
func renewAfter(remaining time.Duration, fraction float64) time.Duration {
	base := share * float64(min(remaining, longestLifetime))
	return time.Duration(base + fraction*jitter*base)
}

// Spread hands out places in the window of renewals, each in [0,1). They are spread evenly over the window, and not only
// on average, as random ones would be: tokens that are issued together are renewed at a steady pace. All methods may be
// called concurrently.
type Spread struct {
	mu   sync.Mutex
	next float64
}

// NewSpread starts anywhere in [0,1). Processes that start at different places do not follow each other.
func NewSpread(start float64) *Spread { return &Spread{next: start} }

// Next returns the next place.
func (s *Spread) Next() float64 {
	s.mu.Lock()
	defer s.mu.Unlock()
	place := s.next
	_, s.next = math.Modf(place + step)
	return place
}
