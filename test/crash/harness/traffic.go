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
	// last is when the last important request ended; ready is true if the process has started to watch sets.
	last  time.Time
	ready bool
}

// Quiet returns for how long there was no important request. It is 0 for a process that has not started to watch sets.
func (t *traffic) Quiet() time.Duration {
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.inFlight > 0 || !t.ready {
		return 0
	}
	return time.Since(t.last)
}

// observed returns a Fault that lets streams execute the requests that open a watch, and fault all others. Both may be nil.
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

// note changes the number of important requests in flight, or records that the process watches sets.
func (t *traffic) note(change int, watches bool) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if change != 0 || watches && !t.ready {
		t.last = time.Now()
	}
	t.inFlight += change
	t.ready = t.ready || watches
}
