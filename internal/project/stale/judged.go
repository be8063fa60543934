package stale

import (
	"context"
	"sync"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/sets"
	"sigs.k8s.io/controller-runtime/pkg/log"

	"github.com/espalier-dev/espalier/internal/excerpt"
	"github.com/espalier-dev/espalier/internal/project/memory"
	"github.com/espalier-dev/espalier/internal/project/served"
	"github.com/espalier-dev/espalier/internal/project/usage"
)

// judgedProjects is this process's memory about the Projects that it has judged. After a restart, the first pass over all Projects rebuilds
// it, at the cost of some requests. The zero value is ready for use.
type judgedProjects struct {
	projects memory.ByName[projectState]

	mu sync.Mutex // guards the fields below
	// reported is true if the suspension has been reported, since is when.
	reported bool
	since    time.Time
}

// projectState is the memory about one Project.
type projectState struct {
	// undecided is true if the Project could not be judged.
	undecided bool
	// use is a use of the project that a read from the API server has found and that the caches do not show yet. The zero value means no use.
	// The field prevents that the controller marks the Project as stale and removes the mark in turns. It is valid until the caches show a
	// use, or until the time in it.
	use liveUse
	// events are the keys of the Events that this process has created.
	events sets.Set[string]
}

type liveUse struct {
	uid   types.UID
	by    string
	until time.Time
}

func (m *judgedProjects) setUndecided(name string, undecided bool) {
	m.projects.Change(name, func(state *projectState) { state.undecided = undecided })
}

// undecided returns the names of the Projects that could not be judged.
func (m *judgedProjects) undecided() []string {
	return m.projects.Names(func(state projectState) bool { return state.undecided })
}

func (m *judgedProjects) recordUse(name string, use liveUse) {
	m.projects.Change(name, func(state *projectState) { state.use = use })
}

// completeUse returns the argument cached if it contains a use from the caches. Otherwise it returns the use that the last check against
// the API server found, until that use is too old. If there is no such use, it returns cached.
func (m *judgedProjects) completeUse(name string, uid types.UID, now time.Time, cached usage.Verdict) (complete usage.Verdict) {
	m.projects.Change(name, func(state *projectState) {
		if cached.By != "" || state.use.uid != uid || !now.Before(state.use.until) {
			state.use, complete = liveUse{}, cached
			return
		}
		complete = usage.Verdict{By: state.use.by, WithoutShoots: cached.WithoutShoots}
	})
	return complete
}

func (m *judgedProjects) hasEvent(name, key string) (has bool) {
	m.projects.Change(name, func(state *projectState) { has = state.events.Has(key) })
	return has
}

func (m *judgedProjects) addEvent(name, key string) {
	m.projects.Change(name, func(state *projectState) {
		if state.events == nil {
			state.events = sets.New[string]()
		}
		state.events.Insert(key)
	})
}

// minSuspensionInterval is the shortest time between two reports of a suspension, so that an API that fails repeatedly does not fill the
// API server with Events.
const minSuspensionInterval = 10 * time.Minute

// suspend returns true if the caller must report the suspension. If it is too early for the report, again is the time until the caller
// must call suspend again. If the suspension was reported already, again is 0. A caller that fails to send the report must call
// retractSuspension.
func (m *judgedProjects) suspend(now time.Time) (report bool, again time.Duration) {
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.reported {
		return false, 0
	}
	if quiet := m.since.Add(minSuspensionInterval).Sub(now); !m.since.IsZero() && quiet > 0 && quiet <= minSuspensionInterval {
		return false, quiet
	}
	m.reported, m.since = true, now
	return true, 0
}

// resume returns true if the caller must report that projects are judged again. A caller that fails to report it calls retractResumption.
func (m *judgedProjects) resume() (report bool) {
	m.mu.Lock()
	defer m.mu.Unlock()
	report, m.reported = m.reported, false
	return report
}

// retractSuspension undoes suspend, and retractResumption undoes resume, if the report failed.
func (m *judgedProjects) retractSuspension() {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.reported, m.since = false, time.Time{}
}

func (m *judgedProjects) retractResumption() {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.reported = true
}

// enqueueUndecided enqueues all Projects that could not be judged.
func (r *Reconciler) enqueueUndecided() {
	for _, name := range r.judged.undecided() {
		r.again.Add(name)
	}
}

// reportSuspension reports, once for all Projects, when judging is suspended and when it resumes. A process that has just started and does
// not know yet which kinds are served reports nothing. If it is too early for the report, again is the time until the Project must be
// reconciled to report the suspension then. Otherwise again is 0.
func (r *Reconciler) reportSuspension(ctx context.Context, name string, f facts, p plan) (again time.Duration, err error) {
	if !p.undecided {
		r.judged.setUndecided(name, false)
		return 0, r.reportResumption(ctx, f.now)
	}
	r.judged.setUndecided(name, true)
	if f.use.Why == "" {
		return 0, nil
	}
	report, again := r.judged.suspend(f.now)
	if !report {
		return again, nil
	}
	log.FromContext(ctx).Info("Projects are neither marked nor deleted, because it is unknown whether they are used", "why", f.use.Why)
	message := "Projects are neither marked as stale nor deleted, because it is unknown whether they are used: " + excerpt.Quoted(f.use.Why)
	if err := r.announceForAll(ctx, f.now, corev1.EventTypeWarning, ReasonSuspended, message); err != nil {
		r.judged.retractSuspension()
		return 0, err
	}
	return 0, nil
}

func (r *Reconciler) reportResumption(ctx context.Context, now time.Time) error {
	if !r.knowsAllKinds() || !r.judged.resume() {
		return nil
	}
	log.FromContext(ctx).Info("Projects are judged again")
	if err := r.announceForAll(ctx, now, corev1.EventTypeNormal, ReasonResumed, "Projects are marked as stale again"); err != nil {
		r.judged.retractResumption()
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
