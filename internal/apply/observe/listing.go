package observe

import (
	"sync"
	"time"

	"k8s.io/utils/clock"
)

// firstListingTimeout is how long callers wait for the first listing of a new watch. A watch that takes longer, for example because its API
// server fails, must not delay the sets that need it and the sets that are next in the work queue.
const firstListingTimeout = 10 * time.Second

// firstListing is the first listing of a watch. Its objects are not reported as changes if all callers have waited for it.
type firstListing struct {
	// done is closed after the listing. timedOut is closed after firstListingTimeout; then callers no longer wait.
	done, timedOut chan struct{}

	mu sync.Mutex
	// unawaited is true if a caller continued without the listing, or if the watch replaces another one. Then the changes of the listing must
	// be reported.
	unawaited bool
}

func newFirstListing() *firstListing {
	return &firstListing{done: make(chan struct{}), timedOut: make(chan struct{})}
}

// limit makes callers stop waiting after firstListingTimeout.
func (f *firstListing) limit(c clock.WithDelayedExecution) {
	c.AfterFunc(firstListingTimeout, func() {
		f.stopWaiting()
		close(f.timedOut)
	})
}

// stopWaiting records that the changes of the listing must be reported.
func (f *firstListing) stopWaiting() {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.unawaited = true
}

func (f *firstListing) isDone() bool {
	select {
	case <-f.done:
		return true
	default:
		return false
	}
}

// record records a listing, the first one or a later one, and reports whether its changes must be reported.
func (f *firstListing) record() bool {
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.isDone() {
		return true
	}
	close(f.done)
	return f.unawaited
}
