package applier

import (
	"time"

	"github.com/espalier-dev/espalier/internal/apply/observe"
)

// action is what one pass does with one object.
type action int

const (
	// leave means that the object is in its desired state. It needs no request.
	leave action = iota
	// create means that the object does not exist.
	create
	// compare means that the object has changed, or is not known: the controller reads it and writes only if it differs.
	compare
	// write means that the desired state has changed: the controller reads the object and writes it in any case.
	write
	// verify means that the process was restarted: managedFields may prove that the object is still in its desired state.
	verify
)

// facts are the input of the decision about one object.
type facts struct {
	item      *item
	seen      observe.Object
	knowledge observe.Presence
	// unchanged is true if the status shows that the content of the set has not changed since the last completed apply.
	unchanged bool
	// writtenLater is true if the object was written, under the field manager of this controller or of gardener-resource-manager, after
	// the status that this process found: for content that the status does not contain, or by another program.
	writtenLater bool
	// recheckBefore is a time: an unwatched object whose last check was not after it is read again.
	recheckBefore time.Time
}

// same reports whether the desired state of the object is the one that was applied last.
func (f facts) same() bool {
	known := f.item.known
	return known.confirmed && known.hash == f.item.Hash || !known.confirmed && f.unchanged
}

// decide returns what to do with one object.
func decide(f facts) action {
	known, same := f.item.known, f.same()
	switch {
	case f.knowledge == observe.Absent:
		return create
	case f.item.Unlabelled:
		return decideUnlabelled(f)
	case known.due == write || !same:
		return write
	case known.due == compare:
		return compare
	case f.knowledge == observe.Unwatched:
		if known.confirmed && known.checkedAt.After(f.recheckBefore) {
			return leave
		}
		return compare
	case !known.confirmed && f.seen.FirstMetadata != nil && f.writtenLater:
		return write
	case !known.confirmed && f.seen.FirstMetadata != nil:
		return verify
	case !known.confirmed || known.fingerprint != f.seen.Fingerprint:
		return compare
	}
	return leave
}

// decideUnlabelled handles an object whose manifest has the annotation "ignore". It only has to exist.
func decideUnlabelled(f facts) action {
	known := f.item.known
	if known.confirmed && known.hash == f.item.Hash && known.due == leave &&
		(f.knowledge == observe.Present || known.checkedAt.After(f.recheckBefore)) {
		return leave
	}
	return compare
}
