package stale

import (
	"context"
	"sync"
	"time"

	"sigs.k8s.io/controller-runtime/pkg/log"

	"github.com/espalier-dev/espalier/internal/project/served"
)

// undecidedProjects are the Projects that could not be judged. After a restart, the first pass over all Projects finds them again.
type undecidedProjects struct {
	mu    sync.Mutex // guards the fields below
	names map[string]struct{}
	// reported is true if the suspension has been reported, since is when.
	reported bool
	since    time.Time
}

func (h *undecidedProjects) add(name string) {
	h.mu.Lock()
	defer h.mu.Unlock()
	if h.names == nil {
		h.names = map[string]struct{}{}
	}
	h.names[name] = struct{}{}
}

func (h *undecidedProjects) drop(name string) {
	h.mu.Lock()
	defer h.mu.Unlock()
	delete(h.names, name)
}

func (h *undecidedProjects) list() []string {
	h.mu.Lock()
	defer h.mu.Unlock()
	names := make([]string, 0, len(h.names))
	for name := range h.names {
		names = append(names, name)
	}
	return names
}

func (h *undecidedProjects) count() int { return len(h.list()) }

// minSuspensionInterval is how long after a report of a suspension the next one is not reported, so that an API that fails repeatedly does
// not fill the API server with Events.
const minSuspensionInterval = 10 * time.Minute

// suspend returns true if the caller must report the suspension. Otherwise it returns after how long to try again; 0 for never. A caller
// that fails to report it calls retractSuspension.
func (h *undecidedProjects) suspend(now time.Time) (report bool, again time.Duration) {
	h.mu.Lock()
	defer h.mu.Unlock()
	if h.reported {
		return false, 0
	}
	if quiet := h.since.Add(minSuspensionInterval).Sub(now); !h.since.IsZero() && quiet > 0 && quiet <= minSuspensionInterval {
		return false, quiet
	}
	h.reported, h.since = true, now
	return true, 0
}

// resume returns true if the caller must report that projects are judged again. A caller that fails to report it calls retractResumption.
func (h *undecidedProjects) resume() (report bool) {
	h.mu.Lock()
	defer h.mu.Unlock()
	report, h.reported = h.reported, false
	return report
}

// retractSuspension undoes suspend, and retractResumption undoes resume, if the report failed.
func (h *undecidedProjects) retractSuspension() {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.reported, h.since = false, time.Time{}
}

func (h *undecidedProjects) retractResumption() {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.reported = true
}

// enqueueUndecided enqueues all Projects that could not be judged.
func (r *Reconciler) enqueueUndecided() {
	for _, name := range r.undecided.list() {
		r.again.Add(name)
	}
}

// reportSuspension reports, once for all Projects, when judging is suspended and when it resumes. A process that has just started and does
// not know yet what is served reports nothing. again is after how long to reconcile the Project to report it then; 0 for never.
func (r *Reconciler) reportSuspension(ctx context.Context, name string, f facts, p plan) (again time.Duration, err error) {
	if !p.undecided {
		r.undecided.drop(name)
		return 0, r.reportResumption(ctx, f.now)
	}
	r.undecided.add(name)
	if f.use.Why == "" {
		return 0, nil
	}
	report, again := r.undecided.suspend(f.now)
	if !report {
		return again, nil
	}
	log.FromContext(ctx).Info("Projects are neither marked nor deleted, because it is unknown whether they are used", "why", f.use.Why)
	if err := r.Events.suspended(ctx, f.now, f.use.Why); err != nil {
		r.undecided.retractSuspension()
		return 0, err
	}
	return 0, nil
}

func (r *Reconciler) reportResumption(ctx context.Context, now time.Time) error {
	if !r.knowsAllKinds() || !r.undecided.resume() {
		return nil
	}
	log.FromContext(ctx).Info("Projects are judged again")
	if err := r.Events.resumed(ctx, now); err != nil {
		r.undecided.retractResumption()
		return err
	}
	return nil
}

func (r *Reconciler) knowsAllKinds() bool {
	for _, kind := range served.Kinds() {
		if r.Served.Finding(kind).State == served.Unknown {
			return false
		}
	}
	return true
}
