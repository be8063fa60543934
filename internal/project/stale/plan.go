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
	// use counts only if mayBeStale or foreseeable asked for it.
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
	// due means that the date of deletion has come and that deletion is on.
	due bool
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
	p := plan{row: row, next: r.nextBefore(f.now, ripe)}
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
	p := plan{row: "unused", staleSince: since}
	graceEnds, expires := since.Add(r.GracePeriod), since.Add(r.Expiration)
	end := expires
	switch {
	case graceEnds.After(f.now):
		if graceEnds.After(end) {
			end = graceEnds
		}
	case f.autoDelete != nil && !expires.After(f.autoDelete.Time):
		p.autoDelete, end = f.autoDelete, f.autoDelete.Time
	default:
		p.autoDelete = &metav1.Time{Time: expires}
	}
	p.next = r.nextBefore(f.now, end)
	if !r.deletes(f) { // a date would be one that never comes
		p.autoDelete, p.next = nil, r.SyncPeriod
		return p
	}
	p.due = p.autoDelete != nil && !f.now.Before(p.autoDelete.Time)
	if r.Deletion == Delete && r.told(f.now, end) {
		p.news = []news{{ReasonDeletionForecast, end}}
	}
	return p
}

func (r Rules) deletes(f facts) bool {
	return r.Deletion != Off && (!f.use.WithoutShoots || r.WithoutShoots)
}

// told tells whether something is so near that it is to be told.
func (r Rules) told(now, at time.Time) bool {
	return r.Forecast > 0 && now.Before(at) && !at.Add(-r.Forecast).After(now)
}

// nextBefore is the period, or less if something has to be told earlier.
func (r Rules) nextBefore(now, at time.Time) time.Duration {
	if tell := at.Add(-r.Forecast); r.Forecast > 0 && tell.After(now) {
		return min(r.SyncPeriod, tell.Sub(now))
	}
	return r.SyncPeriod
}
