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
)

const (
	// retryRefused is when a request that was refused is made again for the first time; each further pause is twice as
	// long.
	retryRefused = time.Second
	// retryDenied is the longest of these pauses: rights and served kinds change rarely.
	retryDenied = 5 * time.Minute
	// persistence is how long a watch that ran has to be refused until it counts as denied. API servers that start, and
	// aggregated ones that are away for a moment, refuse for a short while what they grant again.
	persistence = 10 * time.Second
)

// refused tells whether the API server says that there is nothing to be seen: it is forbidden or not served.
func refused(err error) bool {
	return apierrors.IsForbidden(err) || apierrors.IsNotFound(err) || apierrors.IsMethodNotSupported(err)
}

// turn is what an answer of the API server changes.
type turn int

const (
	// unchanged: the watch goes on as before.
	unchanged turn = iota
	// turnedDown: from now on the watch counts as denied.
	turnedDown
	// restored: what was denied is listed and watched again.
	restored
)

// admission keeps in mind whether one watch is granted. A watch that never ran is denied by the first refusal, so that
// nobody waits for it; one that ran only by refusals that persist. Both are tried again for as long as they are needed.
type admission struct {
	clock clock.Clock
	// firstDenied is closed when the watch is denied for the first time.
	firstDenied chan struct{}

	mu sync.Mutex
	// since is when the refusals began that have not ended; zero if there are none.
	since time.Time
	// again is when the next request may be made, pause how long that was after the last refusal.
	again time.Time
	pause time.Duration
	// proven tells that the watch ran at some time; streams and listed what was granted since the last denial.
	proven, streams, listed bool
	denied                  bool
	reason                  error
}

func newAdmission(c clock.Clock) *admission {
	return &admission{clock: c, firstDenied: make(chan struct{})}
}

// pass waits until the next request may be made.
func (a *admission) pass(ctx context.Context) error {
	a.mu.Lock()
	pause := a.again.Sub(a.clock.Now())
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

// answered takes note of the answer to a request; streaming tells that it was one to watch. That alone proves that a
// watch is granted: some may be listed only.
func (a *admission) answered(streaming bool, err error) turn {
	a.mu.Lock()
	defer a.mu.Unlock()
	switch {
	case refused(err):
		return a.refuse(err)
	case err != nil:
		if !a.denied { // another fault says nothing about what is granted
			a.since = time.Time{}
		}
	case streaming:
		a.since, a.again, a.pause = time.Time{}, time.Time{}, 0
		a.proven, a.streams = true, true
		return a.restore()
	}
	return unchanged
}

func (a *admission) refuse(err error) turn {
	now := a.clock.Now()
	if a.since.IsZero() {
		a.since = now
	}
	a.pause = min(max(2*a.pause, retryRefused), retryDenied)
	a.again = now.Add(a.pause)
	a.reason = err
	if a.proven && now.Sub(a.since) < persistence {
		return unchanged
	}
	a.streams, a.listed = false, false
	if a.denied {
		return unchanged
	}
	a.denied = true
	select {
	case <-a.firstDenied:
	default:
		close(a.firstDenied)
	}
	return turnedDown
}

// sawListing takes note of a complete listing.
func (a *admission) sawListing() turn {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.listed = true
	return a.restore()
}

func (a *admission) restore() turn {
	if !a.denied || !a.streams || !a.listed {
		return unchanged
	}
	a.denied, a.reason = false, nil
	return restored
}

// denial returns why the watch is denied, nil if it is not.
func (a *admission) denial() error {
	a.mu.Lock()
	defer a.mu.Unlock()
	if !a.denied {
		return nil
	}
	return a.reason
}

// collection is the objects of one kind, in one namespace or in all.
type collection interface {
	List(ctx context.Context, options metav1.ListOptions) (runtime.Object, error)
	Watch(ctx context.Context, options metav1.ListOptions) (watch.Interface, error)
}

// source makes requests for a reflector that never gives up: after a refusal it pauses. Told is called with every turn
// and every error; narrow completes the options of a request.
func (a *admission) source(objects collection, client any, narrow func(*metav1.ListOptions), told func(turn, error)) cache.ListerWatcher {
	tell := func(streaming bool, err error) {
		if change := a.answered(streaming, err); change != unchanged || err != nil {
			told(change, err)
		}
	}
	check := &RestoreCheck{Clock: a.clock}
	return cache.ToListWatcherWithWatchListSemantics(&cache.ListWatch{
		ListWithContextFunc: func(ctx context.Context, options metav1.ListOptions) (runtime.Object, error) {
			if err := a.pass(ctx); err != nil {
				return nil, err
			}
			narrow(&options)
			list, err := objects.List(ctx, options)
			tell(false, err)
			return list, err //nolint:wrapcheck // the reflector logs it
		},
		WatchFuncWithContext: func(ctx context.Context, options metav1.ListOptions) (watch.Interface, error) {
			if err := a.pass(ctx); err != nil {
				return nil, err
			}
			narrow(&options)
			stream, err := check.Watch(ctx, options, objects.List, objects.Watch)
			tell(true, err)
			return stream, err //nolint:wrapcheck // the reflector logs it
		},
	}, client)
}
