package stale

import (
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/espalier-dev/espalier/internal/project/usage"
)

// Rules are the settings that projects are judged by.
type Rules struct {
	// MinimumLifetime is how old a project must be, and how long ago its last activity, to be stale.
	MinimumLifetime time.Duration
	// GracePeriod is how long a project is stale before a date for its deletion is set.
	GracePeriod time.Duration
	// Expiration is how long after it became stale a project is deleted.
	Expiration time.Duration
	// SyncPeriod is how often a project is looked at.
	SyncPeriod time.Duration
	// Notice is for how long a deletion must have been announced; 0 if it need not be. At most Forecast.
	Notice time.Duration
	// Forecast is how long before something happens to a project it is told; 0 for never.
	Forecast time.Duration
	// Deletion says whether projects are deleted; see config.EspalierProject.
	Deletion Deletion
	// WithoutShoots lets projects be deleted although no Shoots are served.
	WithoutShoots bool
}

// Deletion is what happens to a project whose date of deletion has come.
type Deletion string

// The values are those of the configuration.
const (
	Delete Deletion = "Delete"
	DryRun Deletion = "DryRun"
	Off    Deletion = "Off"
)

// facts are what is known of a project.
type facts struct {
	now time.Time
	// created and lastActivity are times of the project; the second is nil if there was none.
	created      time.Time
	lastActivity *metav1.Time
	// skip is true if the namespace is exempted.
	skip bool
	// staleSince and autoDelete are as in the status of the project.
	staleSince, autoDelete *metav1.Time
	// lasting is true for the garden's own project, which is never deleted for disuse.
	lasting bool
	// announced is what AnnotationDeletionAnnounced says; nil if nothing was announced.
	announced *metav1.Time
	// use counts only if asksForUse wanted it.
	use usage.Verdict
}

// news is what a project is told about.
type news struct {
	reason string
	// at is when it happens.
	at time.Time
}

// plan is what to do with a project.
type plan struct {
	// row is that of the rules which decided, in words.
	row string
	// hold leaves everything as it is, because nobody can tell.
	hold bool
	// staleSince and autoDelete are wanted in the status, unless hold is set.
	staleSince, autoDelete *metav1.Time
	// due means that the time of deletion has come, be it rehearsed or not.
	due bool
	// announced is wanted in AnnotationDeletionAnnounced, unless hold is set.
	announced *metav1.Time
	// news are what to tell.
	news []news
	// next is when to look again.
	next time.Duration
}

// ripe is when a project can be stale at the earliest.
func (r Rules) ripe(f facts) time.Time {
	at := f.created.Add(r.MinimumLifetime)
	if f.lastActivity != nil {
		if after := f.lastActivity.Add(r.MinimumLifetime); after.After(at) {
			at = after
		}
	}
	return at
}

// asksForUse tells whether it matters for a project if it is used: it may be stale, or somebody may have to be told that it
// will be.
func (r Rules) asksForUse(f facts) bool {
	return !f.skip && !r.ripe(f).Add(-r.Forecast).After(f.now)
}

// judge decides about a project that is not being deleted, and whose namespace is there.
func (r Rules) judge(f facts) plan {
	switch {
	case f.skip:
		return plan{row: "exempted", next: r.SyncPeriod}
	case f.created.Add(r.MinimumLifetime).After(f.now):
		return r.early(f, "young")
	case f.lastActivity != nil && f.lastActivity.Add(r.MinimumLifetime).After(f.now):
		return r.early(f, "active")
	case f.use.By != "":
		return plan{row: "used by " + f.use.By, next: r.SyncPeriod}
	case f.use.Undecided:
		return plan{row: "undecided", hold: true, next: r.SyncPeriod}
	default:
		return r.mark(f)
	}
}

// early is about a project that cannot be stale yet.
func (r Rules) early(f facts, row string) plan {
	ripe := r.ripe(f)
	p := plan{row: row, next: r.nextLook(f.now, ripe, r.nextTelling(f.now, ripe))}
	if r.told(f.now, ripe) && f.use.By == "" && !f.use.Undecided {
		p.news = []news{{ReasonStaleForecast, ripe}}
	}
	return p
}

// mark is about a project that nobody uses.
func (r Rules) mark(f facts) plan {
	since := f.staleSince
	if since == nil {
		since = &metav1.Time{Time: f.now.UTC().Truncate(time.Second)} // as it will be stored
	}
	p := plan{row: "unused", staleSince: since, next: r.SyncPeriod}
	if !r.deletes(f) { // a date would be one that never comes
		return p
	}
	graceEnds := since.Add(r.GracePeriod)
	end := since.Add(r.Expiration)
	switch {
	case graceEnds.After(f.now):
		if graceEnds.After(end) {
			end = graceEnds
		}
	case f.autoDelete != nil && !end.After(f.autoDelete.Time):
		p.autoDelete, end = f.autoDelete, f.autoDelete.Time
	default:
		p.autoDelete = &metav1.Time{Time: end}
	}
	if r.Deletion == Delete {
		r.announce(f, end, &p)
	} else {
		p.due = !f.now.Before(end)
	}
	p.next = r.nextLook(f.now, append(r.moments(f.now, end, p), graceEnds)...)
	return p
}

// late is how long after its date a project is deleted although nobody has announced that. It covers what a process needs that
// runs all the time: its date has been in the status for as long.
const late = time.Hour

// announce decides what to tell of a deletion that is at end, as far as its date goes, and whether its time has come. What
// nobody has announced while there was time for it, because deletion was off or rehearsed, nobody could judge or no process
// was running, happens only after it was announced for as long as the rules demand.
func (r Rules) announce(f facts, end time.Time, p *plan) {
	if r.Notice > 0 && !f.now.Before(end) {
		latest := f.now.UTC().Truncate(time.Second).Add(r.Notice)
		switch {
		case f.announced != nil && f.announced.After(latest): // we did not write that
			end = latest
		case f.announced != nil:
			end = f.announced.Time
		case f.now.Sub(end) > late:
			end = latest
		}
	}
	switch {
	case !f.now.Before(end):
		p.due, p.announced = true, f.announced
	case r.told(f.now, end):
		p.news, p.announced = []news{{ReasonDeletionForecast, end}}, &metav1.Time{Time: end}
	}
	if r.Notice == 0 { // nobody asks whether it was announced
		p.announced = nil
	}
}

func (r Rules) deletes(f facts) bool {
	return r.Deletion != Off && !f.lasting && (!f.use.WithoutShoots || r.WithoutShoots)
}

// told tells whether something is so near that it is to be told.
func (r Rules) told(now, at time.Time) bool {
	return r.Forecast > 0 && now.Before(at) && !at.Add(-r.Forecast).After(now)
}

// daysLeft is how many days there are until something happens, begun ones included; 0 from then on. Each of them it is told
// once.
func daysLeft(now, at time.Time) int {
	left := max(0, at.Sub(now))
	return int((left + tellEvery - 1) / tellEvery)
}

// tellEvery is how often something that is going to happen is told: Events do not last.
const tellEvery = 24 * time.Hour

// nextTelling is when something is to be told next; not after now if never.
func (r Rules) nextTelling(now, at time.Time) time.Time {
	switch {
	case r.Forecast == 0:
		return time.Time{}
	case at.Add(-r.Forecast).After(now):
		return at.Add(-r.Forecast)
	default:
		return at.Add(-time.Duration(max(0, daysLeft(now, at)-1)) * tellEvery)
	}
}

// moments are when something is to be done or told about a deletion.
func (r Rules) moments(now, end time.Time, p plan) []time.Time {
	if r.Deletion != Delete {
		return []time.Time{end}
	}
	if p.announced != nil {
		end = p.announced.Time
	}
	return []time.Time{end, r.nextTelling(now, end)}
}

// nextLook is how long it is until the first of some moments that are still to come, at most the period.
func (r Rules) nextLook(now time.Time, moments ...time.Time) time.Duration {
	next := r.SyncPeriod
	for _, each := range moments {
		if each.After(now) {
			next = min(next, each.Sub(now))
		}
	}
	return next
}
