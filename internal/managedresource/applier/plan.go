package applier

import (
	"time"

	"github.com/espalier-dev/espalier/internal/apply/observe"
)

// action is what one pass does with one object.
type action int

const (
	// leave: the object is as we left it. No request.
	leave action = iota
	// create: the object is not there.
	create
	// look: somebody wrote to it, or we do not know it; read it and write only what differs.
	look
	// write: what is desired has changed; read it and write in any case.
	write
	// recall: after a restart, judge by managedFields whether it is still as an earlier process left it.
	recall
)

// facts are all that the decision about one object needs.
type facts struct {
	item      *item
	seen      observe.Object
	knowledge observe.Knowledge
	// unchanged tells that the whole set is as the last completed apply left it, as far as its status shows.
	unchanged bool
	// later reports that the object was written under our name or the peer's after the status that this process found: for
	// content that the status does not know, or by another program.
	later bool
	// lookAgain is the time after which an object that nobody watches is looked at again.
	lookAgain time.Time
}

// same tells whether what is desired of the object is what was applied last.
func (f facts) same() bool {
	known := f.item.known
	return known.confirmed && known.hash == f.item.hash || !known.confirmed && f.unchanged
}

// decide says what to do with one object.
func decide(f facts) action {
	known, same := f.item.known, f.same()
	switch {
	case f.knowledge == observe.Absent:
		return create
	case f.item.unlabelled:
		return decideUnlabelled(f)
	case known.due == write || !same:
		return write
	case known.due == look:
		return look
	case f.knowledge == observe.Unwatched:
		if known.confirmed && known.looked.After(f.lookAgain) {
			return leave
		}
		return look
	case !known.confirmed && f.seen.Raw != nil && f.later:
		return write
	case !known.confirmed && f.seen.Raw != nil:
		return recall
	case !known.confirmed || known.fingerprint != f.seen.Fingerprint:
		return look
	}
	return leave
}

// decideUnlabelled: an object whose manifest says "ignore" only has to be there.
func decideUnlabelled(f facts) action {
	known := f.item.known
	if known.confirmed && known.hash == f.item.hash && known.due == leave && (f.knowledge == observe.Present || known.looked.After(f.lookAgain)) {
		return leave
	}
	return look
}

const (
	// fightWindow and fightLimit: more repairs than the limit within the window, of one object against one manager,
	// are a fight.
	fightWindow = time.Minute
	fightLimit  = 3
	// A fight is interrupted for this long, doubled each time up to the maximum.
	fightPause    = 10 * time.Second
	fightPauseMax = 5 * time.Minute
)

// fight remembers how often an object had to be repaired against the same field manager.
type fight struct {
	manager string
	repairs []time.Time
	pause   time.Duration
	until   time.Time
}

// repaired returns the fight after one more repair, and whether it has to pause now.
func (f *fight) repaired(manager string, now time.Time) (*fight, bool) {
	if f == nil || f.manager != manager || !f.until.IsZero() && now.Sub(f.until) > 2*fightPauseMax {
		f = &fight{manager: manager}
	}
	next := fight{manager: manager, repairs: []time.Time{now}, pause: f.pause, until: f.until}
	for _, at := range f.repairs {
		if now.Sub(at) < fightWindow {
			next.repairs = append(next.repairs, at)
		}
	}
	if len(next.repairs) < fightLimit {
		return &next, false
	}
	next.pause = min(max(2*f.pause, fightPause), fightPauseMax)
	next.until = now.Add(next.pause)
	next.repairs = nil
	return &next, true
}

// pausing tells whether repairs are interrupted.
func (f *fight) pausing(now time.Time) bool { return f != nil && now.Before(f.until) }
