package observe

import (
	"context"
	"fmt"
	"sync"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/watch"
	"k8s.io/client-go/tools/cache"
	"k8s.io/utils/clock"

	"github.com/espalier-dev/espalier/internal/reflector"
)

const (
	// minRetryPause is the pause before the first retry of a refused request. Each further pause is twice as long.
	minRetryPause = time.Second
	// maxRetryPause is the longest of these pauses. Permissions and served kinds change rarely.
	maxRetryPause = 5 * time.Minute
	// deniedAfter is how long the API server must refuse a watch that has run before until this watch counts as denied. An API server that
	// starts refuses requests for a short time, and so does an aggregated API server during an interruption.
	deniedAfter = 10 * time.Second
)

// isRefusal reports whether the API server forbids a request or does not serve the kind.
func isRefusal(err error) bool {
	return apierrors.IsForbidden(err) || apierrors.IsNotFound(err) || apierrors.IsMethodNotSupported(err)
}

// accessChange is the change of access that an answer of the API server causes.
type accessChange int

const (
	// accessUnchanged means that the watch continues as before.
	accessUnchanged accessChange = iota
	// accessDenied means that the watch now counts as denied.
	accessDenied
	// accessRestored means that a denied watch can list and watch again.
	accessRestored
)

// access records whether the API server allows one watch. A watch that has never run counts as denied from the first refusal on, so that
// callers do not wait for it. A watch that has run counts as denied once the API server has refused it for deniedAfter. The requests of a
// denied watch are repeated until the watch is stopped.
type access struct {
	clock clock.Clock
	// firstDenied is closed when the watch is denied for the first time.
	firstDenied chan struct{}

	mu sync.Mutex
	// refusedSince is when the current refusals began; zero if there are none.
	refusedSince time.Time
	// retryAt is the earliest time of the next request. pause is the time between the last refusal and retryAt.
	retryAt time.Time
	pause   time.Duration
	// everRan is true once the watch has run. watchGranted and listGranted are true if a watch or a list request was allowed since the watch
	// was last denied.
	everRan, watchGranted, listGranted bool
	denied                             bool
	reason                             error
}

func newAccess(c clock.Clock) *access {
	return &access{clock: c, firstDenied: make(chan struct{})}
}

// waitForRetry waits until the next request may be sent.
func (a *access) waitForRetry(ctx context.Context) error {
	a.mu.Lock()
	pause := a.retryAt.Sub(a.clock.Now())
	a.mu.Unlock()
	if pause <= 0 {
		return nil
	}
	select {
	case <-a.clock.After(pause):
		return nil
	case <-ctx.Done():
		return fmt.Errorf("wait after a refusal: %w", context.Cause(ctx))
	}
}

// recordAnswer records the answer to a request. streaming is true for a watch request. Only the answer to such a request proves that
// the watch is allowed, because permission to list does not imply permission to watch.
func (a *access) recordAnswer(streaming bool, err error) accessChange {
	a.mu.Lock()
	defer a.mu.Unlock()
	switch {
	case isRefusal(err):
		return a.recordRefusal(err)
	case err != nil:
		if !a.denied { // other errors do not show whether the watch is allowed
			a.refusedSince = time.Time{}
		}
	case streaming:
		a.refusedSince, a.retryAt, a.pause = time.Time{}, time.Time{}, 0
		a.everRan, a.watchGranted = true, true
		return a.restoreIfProven()
	}
	return accessUnchanged
}

func (a *access) recordRefusal(err error) accessChange {
	now := a.clock.Now()
	if a.refusedSince.IsZero() {
		a.refusedSince = now
	}
	a.pause = min(max(2*a.pause, minRetryPause), maxRetryPause)
	a.retryAt = now.Add(a.pause)
	a.reason = err
	if a.everRan && now.Sub(a.refusedSince) < deniedAfter {
		return accessUnchanged
	}
	a.watchGranted, a.listGranted = false, false
	if a.denied {
		return accessUnchanged
	}
	a.denied = true
	select {
	case <-a.firstDenied:
	default:
		close(a.firstDenied)
	}
	return accessDenied
}

// recordListing records a complete listing.
func (a *access) recordListing() accessChange {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.listGranted = true
	return a.restoreIfProven()
}

func (a *access) restoreIfProven() accessChange {
	if !a.denied || !a.watchGranted || !a.listGranted {
		return accessUnchanged
	}
	a.denied, a.reason = false, nil
	return accessRestored
}

// denial returns why the watch is denied, nil if it is not denied.
func (a *access) denial() error {
	a.mu.Lock()
	defer a.mu.Unlock()
	if !a.denied {
		return nil
	}
	return a.reason
}

// client returns a client that waits after a refusal before it sends the next request. It calls onChange with every change of access and
// every error. narrow adds the selector of the watch to the options of a request.
func (a *access) client(objects reflector.Client, narrow func(*metav1.ListOptions), onChange func(accessChange, error)) reflector.Client {
	record := func(streaming bool, err error) {
		if change := a.recordAnswer(streaming, err); change != accessUnchanged || err != nil {
			onChange(change, err)
		}
	}
	check := &RestoreCheck{Clock: a.clock}
	return &cache.ListWatch{
		ListWithContextFunc: func(ctx context.Context, options metav1.ListOptions) (runtime.Object, error) {
			if err := a.waitForRetry(ctx); err != nil {
				return nil, err
			}
			narrow(&options)
			list, err := objects.ListWithContext(ctx, options)
			record(false, err)
			return list, err
		},
		WatchFuncWithContext: func(ctx context.Context, options metav1.ListOptions) (watch.Interface, error) {
			if err := a.waitForRetry(ctx); err != nil {
				return nil, err
			}
			narrow(&options)
			stream, err := check.Watch(ctx, options, objects)
			record(true, err)
			return stream, err
		},
	}
}
