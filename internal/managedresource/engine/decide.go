package engine

import (
	"time"

	resourcesv1alpha1 "github.com/espalier-dev/espalier/api/resources/v1alpha1"
	"github.com/espalier-dev/espalier/internal/apply/observe"
	"github.com/espalier-dev/espalier/internal/managedresource/desired"
)

// Action is the work that one reconciliation does for one object.
type Action int

const (
	// Leave means that the object is in its desired state. It needs no request.
	Leave Action = iota
	// Create means that the object does not exist.
	Create
	// Compare means that the object has changed, or is not known: the controller reads it and writes only if it differs.
	Compare
	// Write means that the desired state has changed, or that a write is due: the controller reads the object and writes it in any case.
	Write
	// Verify means that the process was restarted: managedFields may prove that the object is still in its desired state.
	Verify
)

// Facts are the input of Decide about one object.
type Facts struct {
	*desired.Item
	Known Knowledge
	// Seen is the state of the object that a watch shows. Presence says whether a watch covers and shows the object. The watch may receive a
	// newer version at any time.
	Seen     observe.Object
	Presence observe.Presence
	// Unchanged is true if the status shows that the content of the set has not changed since the last completed apply.
	Unchanged bool
	// WrittenLater is true if the object was written, under the field manager of this controller or of gardener-resource-manager, after the
	// last write of the status that this process found. Then the object has content that the status does not describe, or another program
	// wrote it.
	WrittenLater bool
	// Finished is true if the object is a Job that was seen finished. It may have been deleted since.
	Finished bool
	// RecheckBefore is a time. If no watch covers an object, the controller reads the object again, unless it has checked the object after
	// this time.
	RecheckBefore time.Time
}

// Same reports whether the desired state of the object is the one that was applied last: then every difference is drift.
func (f Facts) Same() bool {
	known := f.Known
	return known.Confirmed && known.Hash == f.Item.Hash || !known.Confirmed && f.Unchanged
}

// ended reports whether a missing object must not be created: it is a Job that has finished and that Kubernetes has deleted, and no rerun
// is requested. If this process has never seen the Job, ended relies on the status, which shows that an earlier process created the Job.
func (f Facts) ended() bool {
	return f.Expires && !f.Known.Rerun && f.Same() && (f.Finished || !f.Known.Confirmed)
}

// Decide returns the action for one object.
func Decide(f Facts) Action {
	known, same := f.Known, f.Same()
	switch {
	case f.Presence == observe.Absent && f.ended():
		return Leave
	case f.Presence == observe.Absent:
		return Create
	case f.Item.Unlabelled:
		return decideUnlabelled(f)
	case known.Due == Write || !same:
		return Write
	case known.Due == Compare:
		return Compare
	case f.Presence == observe.Unwatched:
		if known.Confirmed && known.CheckedAt.After(f.RecheckBefore) {
			return Leave
		}
		return Compare
	case !known.Confirmed && f.Seen.FirstMetadata != nil && f.WrittenLater:
		return Write
	case !known.Confirmed && f.Seen.FirstMetadata != nil:
		return Verify
	case !known.Confirmed || known.Fingerprint != f.Seen.Fingerprint:
		return Compare
	}
	return Leave
}

// decideUnlabelled is Decide for an object whose manifest has the annotation "ignore": it only has to exist.
func decideUnlabelled(f Facts) Action {
	known := f.Known
	if known.Confirmed && known.Hash == f.Item.Hash && known.Due == Leave &&
		(f.Presence == observe.Present || known.CheckedAt.After(f.RecheckBefore)) {
		return Leave
	}
	return Compare
}

// NewTask returns the task for an action. The argument recorded is true if the last completed apply was of the content that the set has
// now.
func NewTask(f Facts, next Action, previous *resourcesv1alpha1.ObjectReference, recorded bool) Task {
	return Task{Facts: f, Action: next, Previous: previous, Yields: f.Same() || !f.Known.Confirmed && recorded}
}
