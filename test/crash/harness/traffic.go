package harness

import (
	"net/http"
	"sync"
	"time"

	"github.com/espalier-dev/espalier/test/binary"
)

// traffic counts the requests between a process and its API servers.
type traffic struct {
	mu       sync.Mutex
	inFlight int
	// last is when the last request ended for which Counts is true. ready is true if the process has opened a watch on sets.
	last  time.Time
	ready bool
}

// Quiet returns the time since the last request for which Counts is true. It returns 0 during such a request, and for a process that has
// not opened a watch on sets.
func (t *traffic) Quiet() time.Duration {
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.inFlight > 0 || !t.ready {
		return 0
	}
	return time.Since(t.last)
}

// observed returns a Fault that passes requests which open a watch to streams, and all others to fault. Both may be nil.
func (t *traffic) observed(fault, streams binary.Fault) binary.Fault {
	return func(request *http.Request, next http.RoundTripper) (*http.Response, error) {
		info := binary.Info(request)
		if info.Verb == "watch" {
			response, err := streams.Execute(request, next)
			t.note(0, err == nil && info.Resource == "managedresources")
			return response, err
		}
		if Counts(request) {
			t.note(1, false)
			defer t.note(-1, false)
		}
		return fault.Execute(request, next)
	}
}

// note changes the number of counted requests in flight, or records that the process has opened a watch on sets.
func (t *traffic) note(change int, watches bool) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if change != 0 || watches && !t.ready {
		t.last = time.Now()
	}
	t.inFlight += change
	t.ready = t.ready || watches
}
