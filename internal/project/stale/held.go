package stale

import (
	"context"
	"sync"
	"time"

	"sigs.k8s.io/controller-runtime/pkg/log"

	"github.com/espalier-dev/espalier/internal/project/served"
)

// held are the Projects that could not be judged. After a restart, the first pass over all Projects finds them again.
type held struct {
	mu    sync.Mutex // guards the fields below
	names map[string]struct{}
	// told is true if the suspension has been reported, since is when.
	told  bool
	since time.Time
}

func (h *held) add(name string) {
	h.mu.Lock()
	defer h.mu.Unlock()
	if h.names == nil {
		h.names = map[string]struct{}{}
	}
	h.names[name] = struct{}{}
}

func (h *held) drop(name string) {
	h.mu.Lock()
	defer h.mu.Unlock()
	delete(h.names, name)
}

func (h *held) list() []string {
	h.mu.Lock()
	defer h.mu.Unlock()
	names := make([]string, 0, len(h.names))
	for name := range h.names {
		names = append(names, name)
	}
	return names
}

func (h *held) count() int { return len(h.list()) }

// flapping is how long after a report of a suspension the next one is not reported, so that an API that fails repeatedly does not fill the
// API server with Events.
const flapping = 10 * time.Minute

// suspend returns true if the caller must report the suspension. Otherwise it returns after how long to try again; 0 for never. A caller
// that fails to report it calls untold.
func (h *held) suspend(now time.Time) (tell bool, again time.Duration) {
	h.mu.Lock()
	defer h.mu.Unlock()
	if h.told {
		return false, 0
	}
	if quiet := h.since.Add(flapping).Sub(now); !h.since.IsZero() && quiet > 0 && quiet <= flapping {
		return false, quiet
	}
	h.told, h.since = true, now
	return true, 0
}

// resume returns true if the caller must report that projects are judged again. A caller that fails to report it calls suspended.
func (h *held) resume() (tell bool) {
	h.mu.Lock()
	defer h.mu.Unlock()
	tell, h.told = h.told, false
	return tell
}

// untold undoes a suspend, and suspended undoes a resume, if the report failed.
func (h *held) untold() {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.told, h.since = false, time.Time{}
}

func (h *held) suspended() {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.told = true
}

// wake enqueues all Projects that could not be judged.
func (r *Reconciler) wake() {
	for _, name := range r.held.list() {
		r.again.Add(name)
	}
}

// reportHeld reports, once for all Projects, when judging is suspended and when it resumes. A process that has just started and does not
// know yet what is served reports nothing. again is after how long to reconcile the Project to report it then; 0 for never.
func (r *Reconciler) reportHeld(ctx context.Context, name string, f facts, p plan) (again time.Duration, err error) {
	if !p.hold {
		r.held.drop(name)
		return 0, r.reportResumed(ctx, f.now)
	}
	r.held.add(name)
	if f.use.Why == "" {
		return 0, nil
	}
	tell, again := r.held.suspend(f.now)
	if !tell {
		return again, nil
	}
	log.FromContext(ctx).Info("Projects are neither marked nor deleted, because nobody can tell whether they are used", "why", f.use.Why)
	if err := r.Events.suspended(ctx, f.now, f.use.Why); err != nil {
		r.held.untold()
		return 0, err
	}
	return 0, nil
}

func (r *Reconciler) reportResumed(ctx context.Context, now time.Time) error {
	if !r.seesAll() || !r.held.resume() {
		return nil
	}
	log.FromContext(ctx).Info("Projects are judged again")
	if err := r.Events.resumed(ctx, now); err != nil {
		r.held.suspended()
		return err
	}
	return nil
}

func (r *Reconciler) seesAll() bool {
	for _, kind := range served.Kinds() {
		if r.Served.Finding(kind).State == served.Unknown {
			return false
		}
	}
	return true
}
