package stale

import (
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/espalier-dev/espalier/internal/project/usage"
)

// Rules are the settings by which projects are judged.
type Rules struct {
	// MinimumLifetime is the minimum age of a project, and the minimum time since its last activity, before it can be stale.
	MinimumLifetime time.Duration
	// GracePeriod is how long a project is stale before the date of its deletion is set.
	GracePeriod time.Duration
	// Expiration is the time from when a project becomes stale until it is deleted.
	Expiration time.Duration
	// SyncPeriod is the longest time between two checks of a project.
	SyncPeriod time.Duration
	// Notice is how long before a deletion it must have been announced; 0 if no announcement is required. It is at most Forecast.
	Notice time.Duration
	// Forecast is how long in advance a change is announced on the project; 0 for never.
	Forecast time.Duration
	// Deletion is what happens to stale projects; see config.EspalierProject.
	Deletion Deletion
	// WithoutShoots allows projects to be deleted although Shoots are not served.
	WithoutShoots bool
}

// Deletion is what happens to a project when its date of deletion is reached.
type Deletion string

// The values are those of the configuration.
const (
	Delete Deletion = "Delete"
	DryRun Deletion = "DryRun"
	Off    Deletion = "Off"
)

// facts are what is known about a project.
type facts struct {
	now time.Time
	// created and lastActivity are times of the project; lastActivity is nil if there was no activity.
	created      time.Time
	lastActivity *metav1.Time
	// skip is true if the namespace is exempted.
	skip bool
	// staleSince and autoDelete are as in the status of the project.
	staleSince, autoDelete *metav1.Time
	// lasting is true for the project of the namespace garden, which is never deleted for being unused.
	lasting bool
	// announced is the time in AnnotationDeletionAnnounced; nil if no deletion is announced.
	announced *metav1.Time
	// use is set only if asksForUse returns true.
	use usage.Verdict
}

// news is an announcement on a project.
type news struct {
	reason string
	// at is when the announced change happens.
	at time.Time
}

// plan is what to do with a project.
type plan struct {
	// row describes the row of the rules that decided.
	row string
	// hold leaves everything as it is, because it is unknown whether the project is used.
	hold bool
	// staleSince and autoDelete are the desired values in the status, unless hold is set.
	staleSince, autoDelete *metav1.Time
	// due is true if the date of deletion is reached, also if Deletion is DryRun.
	due bool
	// announced is the desired value of AnnotationDeletionAnnounced, unless hold is set.
	announced *metav1.Time
	// news are the announcements to make.
	news []news
	// next is the time until the next check.
	next time.Duration
}

// ripe is the earliest time at which a project can be stale.
func (r Rules) ripe(f facts) time.Time {
	at := f.created.Add(r.MinimumLifetime)
	if f.lastActivity != nil {
		if after := f.lastActivity.Add(r.MinimumLifetime); after.After(at) {
			at = after
		}
	}
	return at
}

// asksForUse reports whether the use of a project must be determined: the project may be stale, or will be soon enough to announce it.
func (r Rules) asksForUse(f facts) bool {
	return !f.skip && !r.ripe(f).Add(-r.Forecast).After(f.now)
}

// judge decides about a project that is not being deleted and whose namespace exists.
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

// early is the plan for a project that cannot be stale yet.
func (r Rules) early(f facts, row string) plan {
	ripe := r.ripe(f)
	p := plan{row: row, next: r.nextLook(f.now, ripe, r.nextTelling(f.now, ripe))}
	if r.told(f.now, ripe) && f.use.By == "" && !f.use.Undecided {
		p.news = []news{{ReasonStaleForecast, ripe}}
	}
	return p
}

// mark is the plan for a project that is not used.
func (r Rules) mark(f facts) plan {
	since := f.staleSince
	if since == nil {
		since = &metav1.Time{Time: f.now.UTC().Truncate(time.Second)} // the precision that the API server stores
	}
	p := plan{row: "unused", staleSince: since, next: r.SyncPeriod}
	if !r.deletes(f) { // without deletion, no date is shown
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

// late is how long after its date a project may still be deleted without an announcement. It covers the delay of a process that runs all
// the time: the date has been in the status for long enough then.
const late = time.Hour

// announce decides what to announce about a deletion with the given date, and whether the project is due. A deletion that was not announced
// in time, because deletion was Off or DryRun, the use was unknown or no process was running, is postponed until it has been announced for
// as long as Notice demands.
func (r Rules) announce(f facts, end time.Time, p *plan) {
	if r.Notice > 0 && !f.now.Before(end) {
		latest := f.now.UTC().Truncate(time.Second).Add(r.Notice)
		switch {
		case f.announced != nil && f.announced.After(latest): // this controller never writes such a late time
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
	if r.Notice == 0 { // no announcement is required
		p.announced = nil
	}
}

func (r Rules) deletes(f facts) bool {
	return r.Deletion != Off && !f.lasting && (!f.use.WithoutShoots || r.WithoutShoots)
}

// told reports whether a change is near enough to be announced.
func (r Rules) told(now, at time.Time) bool {
	return r.Forecast > 0 && now.Before(at) && !at.Add(-r.Forecast).After(now)
}

// daysLeft returns the number of days until a change, rounded up; 0 once the time has come. The change is announced once for each number.
func daysLeft(now, at time.Time) int {
	left := max(0, at.Sub(now))
	return int((left + tellEvery - 1) / tellEvery)
}

// tellEvery is how often an announcement is repeated: Events expire.
const tellEvery = 24 * time.Hour

// nextTelling returns when to announce a change next. The result is not after now if it need not be announced again.
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

// moments returns the times at which a deletion needs an action or an announcement.
func (r Rules) moments(now, end time.Time, p plan) []time.Time {
	if r.Deletion != Delete {
		return []time.Time{end}
	}
	if p.announced != nil {
		end = p.announced.Time
	}
	return []time.Time{end, r.nextTelling(now, end)}
}

// nextLook returns the time until the first of the given moments that is still ahead, at most SyncPeriod.
func (r Rules) nextLook(now time.Time, moments ...time.Time) time.Duration {
	next := r.SyncPeriod
	for _, each := range moments {
		if each.After(now) {
			next = min(next, each.Sub(now))
		}
	}
	return next
}
