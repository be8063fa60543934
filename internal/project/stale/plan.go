package stale

import (
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/ptr"

	"github.com/espalier-dev/espalier/internal/config"
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
	// Deletion says what happens to stale projects: a value of config.EspalierProject.StaleDeletion. With Off, they get no date of deletion.
	Deletion string
	// WithoutShoots allows projects to be deleted although Shoots are not served.
	WithoutShoots bool
}

// RulesOf returns the rules from two sections of a configuration whose defaults are set. It limits each number of days to config.MaxDays:
// a larger number means never, and without the limit the sum of a time and the number of days could overflow into the past.
func RulesOf(section config.ProjectController, own config.EspalierProject) Rules {
	days := func(number *int) time.Duration { return time.Duration(min(*number, config.MaxDays)) * config.Day }
	return Rules{
		MinimumLifetime: days(section.MinimumLifetimeDays),
		GracePeriod:     days(section.StaleGracePeriodDays),
		Expiration:      days(section.StaleExpirationTimeDays),
		SyncPeriod:      section.StaleSyncPeriod.Duration,
		Notice:          ptr.Deref(own.StaleDeletionNotice, metav1.Duration{}).Duration,
		Forecast:        own.StaleForecast.Duration,
		Deletion:        own.StaleDeletion,
		WithoutShoots:   own.StaleDeletionWithoutShoots,
	}
}

// facts are the observations about a project that the rules need.
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
	// use is set only if needsUse returns true.
	use usage.Verdict
}

// plannedEvent is an Event that announces a change of a project.
type plannedEvent struct {
	reason string
	// at is when the announced change happens.
	at time.Time
}

// plan is the decision about a project.
type plan struct {
	// row is the name of the case in Rules.judge that decided, for log messages.
	row string
	// undecided is true if the project stays unchanged, because it is unknown whether the project is used.
	undecided bool
	// staleSince and autoDelete are the desired values in the status, unless undecided is set.
	staleSince, autoDelete *metav1.Time
	// due is true if the date of deletion is reached, also if Deletion is DryRun.
	due bool
	// announced is the desired value of AnnotationDeletionAnnounced, unless undecided is set.
	announced *metav1.Time
	// events are the announcements to make.
	events []plannedEvent
	// next is the time until the next check.
	next time.Duration
}

// earliestStale is the earliest time at which a project can be stale.
func (r Rules) earliestStale(f facts) time.Time {
	at := f.created.Add(r.MinimumLifetime)
	if f.lastActivity != nil {
		if after := f.lastActivity.Add(r.MinimumLifetime); after.After(at) {
			at = after
		}
	}
	return at
}

// needsUse reports whether the use of a project must be determined: the project may be stale, or will be soon enough to announce it.
func (r Rules) needsUse(f facts) bool {
	return !f.skip && !r.earliestStale(f).Add(-r.Forecast).After(f.now)
}

// judge decides about a project that is not being deleted and whose namespace exists.
func (r Rules) judge(f facts) plan {
	switch {
	case f.skip:
		return plan{row: "exempted", next: r.SyncPeriod}
	case f.created.Add(r.MinimumLifetime).After(f.now):
		return r.planTooEarly(f, "young")
	case f.lastActivity != nil && f.lastActivity.Add(r.MinimumLifetime).After(f.now):
		return r.planTooEarly(f, "active")
	case f.use.By != "":
		return plan{row: "used by " + f.use.By, next: r.SyncPeriod}
	case f.use.Undecided:
		return plan{row: "undecided", undecided: true, next: r.SyncPeriod}
	default:
		return r.planStale(f)
	}
}

// planTooEarly is the plan for a project that cannot be stale yet.
func (r Rules) planTooEarly(f facts, row string) plan {
	stale := r.earliestStale(f)
	p := plan{row: row, next: r.nextCheck(f.now, stale, r.nextAnnouncement(f.now, stale))}
	if r.isAnnounced(f.now, stale) && f.use.By == "" && !f.use.Undecided {
		p.events = []plannedEvent{{ReasonStaleForecast, stale}}
	}
	return p
}

// planStale is the plan for a project that is not used.
func (r Rules) planStale(f facts) plan {
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
	if r.Deletion == config.StaleDeletionDelete {
		r.announce(f, end, &p)
	} else {
		p.due = !f.now.Before(end)
	}
	p.next = r.nextCheck(f.now, append(r.actionTimes(f.now, end, p), graceEnds)...)
	return p
}

// late is how long after the date of its deletion a project may still be deleted without an announcement. A process that runs all the time
// deletes a project with a smaller delay, and users could see the date in the status of the project long before.
const late = time.Hour

// announce decides which deletion to announce, and whether the project is due; end is the date of the deletion. If Notice is not 0, and
// the deletion was not announced before its date, and the date is longer ago than the constant late, announce postpones the deletion until
// it has been announced for the time in Notice. This happens if deletion was Off or DryRun, if the use was unknown, or if no process was
// running.
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
	case r.isAnnounced(f.now, end):
		p.events, p.announced = []plannedEvent{{ReasonDeletionForecast, end}}, &metav1.Time{Time: end}
	}
	if r.Notice == 0 { // no announcement is required
		p.announced = nil
	}
}

func (r Rules) deletes(f facts) bool {
	return r.Deletion != config.StaleDeletionOff && !f.lasting && (!f.use.WithoutShoots || r.WithoutShoots)
}

// isAnnounced reports whether a change is near enough to be announced.
func (r Rules) isAnnounced(now, at time.Time) bool {
	return r.Forecast > 0 && now.Before(at) && !at.Add(-r.Forecast).After(now)
}

// daysLeft returns the number of days until a change, rounded up; 0 once the time has come. The change is announced once for each number.
func daysLeft(now, at time.Time) int {
	left := max(0, at.Sub(now))
	return int((left + announcementInterval - 1) / announcementInterval)
}

// announcementInterval is how often an announcement is repeated: Events expire.
const announcementInterval = 24 * time.Hour

// nextAnnouncement returns when to announce a change next. The result is not after now if it need not be announced again.
func (r Rules) nextAnnouncement(now, at time.Time) time.Time {
	switch {
	case r.Forecast == 0:
		return time.Time{}
	case at.Add(-r.Forecast).After(now):
		return at.Add(-r.Forecast)
	default:
		return at.Add(-time.Duration(max(0, daysLeft(now, at)-1)) * announcementInterval)
	}
}

// actionTimes returns the times at which a deletion needs an action or an announcement.
func (r Rules) actionTimes(now, end time.Time, p plan) []time.Time {
	if r.Deletion != config.StaleDeletionDelete {
		return []time.Time{end}
	}
	if p.announced != nil {
		end = p.announced.Time
	}
	return []time.Time{end, r.nextAnnouncement(now, end)}
}

// nextCheck returns the time until the first of the given moments that is still ahead, at most SyncPeriod.
func (r Rules) nextCheck(now time.Time, moments ...time.Time) time.Duration {
	next := r.SyncPeriod
	for _, each := range moments {
		if each.After(now) {
			next = min(next, each.Sub(now))
		}
	}
	return next
}
