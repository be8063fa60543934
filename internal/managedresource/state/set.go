// Package state is the memory of the ManagedResource controller about sets (ManagedResources) between reconciliations. After a restart the
// memory is empty (see Memory): everything that must survive is in the status of the sets. Only Set.Former cannot be determined again
// after a restart.
package state

import (
	"slices"
	"time"

	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/sets"

	resourcesv1alpha1 "github.com/espalier-dev/espalier/api/resources/v1alpha1"
	"github.com/espalier-dev/espalier/internal/apply/inventory"
	"github.com/espalier-dev/espalier/internal/apply/merge"
	"github.com/espalier-dev/espalier/internal/managedresource/desired"
	"github.com/espalier-dev/espalier/internal/managedresource/engine"
	"github.com/espalier-dev/espalier/internal/managedresource/prune"
)

// Object is a desired object with the knowledge of the controller about the live one.
type Object struct {
	*desired.Item
	Known engine.Knowledge
}

// Set is the memory of the controller about one ManagedResource. Only the worker that processes the set accesses it.
type Set struct {
	Shown
	Leaving
	Due
	Plans
	// Content is the desired state of the set. Objects are its items with the knowledge about them. Loaded is false if the Secrets must be
	// read again.
	Content *desired.Content
	Objects []*Object
	Loaded  bool
	// Sources are the manifests of Content; nil unless later content may have to wait (see Former).
	Sources *Sources
	// Former is the content that was applied last, while the present content waits for other sets or for an approval. It is nil if no content
	// was applied before, if the present content is being applied, or if the process has never read the content that was applied last.
	Former *Former
	// Pruned is true if the apply whose result is postponed has deleted and released the objects that left the set.
	Pruned bool
	// InitialStatusTime is the time of the last write of the status before this process first read the set, by the clock of the API server. It
	// is nil until the set is read.
	InitialStatusTime *time.Time
	// InSyncVersion is the resourceVersion of the set for which the last pass found every object in its desired state; "" if a pass must
	// compare every object.
	InSyncVersion string
	// user is the user with whose rights the last pass read and wrote; nil before the first pass.
	user *string
	// Watched is true if watches covered every object in the last pass.
	Watched bool
	// Kstatus is true if objects of kinds without a health rule are judged by their status, and so watched whole.
	Kstatus bool
	// version is the resourceVersion of the last write of this process to the set: an older cached copy must not be used.
	version string
	// EndedUID is the UID of the set if the API server deleted the set when the controller removed its finalizer. A cache may still show
	// the set for some time.
	EndedUID types.UID
	// LastFault is the fault that the last Event reported.
	LastFault string
}

// Sources are the manifests of a content, and the settings with which they are applied.
type Sources struct {
	Manifests *desired.Manifests
	Settings  merge.Options
}

// Former is content of a set with everything that is needed to restore its objects.
type Former struct {
	*Sources
	Content *desired.Content
	Objects []*Object
}

// Shown is the memory about the status of a set.
type Shown struct {
	// References are the objects to list in the status; nil after they were written there.
	References []resourcesv1alpha1.ObjectReference
	// Reported is the digest of the last written status.resources.
	Reported uint64
	// Announced identifies the content whose references are in the status, although its objects may not be written yet. It is "" if there is
	// no such content. The next write of the status replaces the health of former content.
	Announced string
	// Outdated is true if the status shows the health of the previous content, and not of the content that is being applied.
	Outdated bool
	// PostponedSince is the time since which the write of the result of an apply is postponed, because the health of the set is about to
	// change; zero if it is not postponed.
	PostponedSince time.Time
	// Settled is true if the status describes exactly the loaded content.
	Settled bool
}

// Leaving is the memory about objects that have left the set.
type Leaving struct {
	// NeverWritten are objects that Espalier never wrote, so that they must not be deleted.
	NeverWritten sets.Set[inventory.Key]
	// Deletion is the progress of the present deletion, nil if there is none.
	Deletion *prune.Progress
	// Withheld are objects that stay for now: see prune.Withheld.
	Withheld prune.Withheld
	// Braked is true if the controller has decided whether to suspend pruning. Suspension is the reason of a suspension; nil if pruning is
	// not suspended.
	Braked     bool
	Suspension *prune.Suspension
	// SuspendedAt is the time of that decision. The decision is made again after some time, because it also depends on objects of others.
	SuspendedAt time.Time
}

// Due is the memory about periodic and requested work.
type Due struct {
	NextAudit  time.Time
	NextUpdate time.Time
	// AuditOwed is true if every object must be read. It is reset when Knowledge.Due of each object is set.
	AuditOwed bool
	// RerunOwed is true if Jobs that have finished and are gone must be created again.
	RerunOwed bool
}

// Plans is the memory about the plans of a set.
type Plans struct {
	// LastPlanFault is the last fault that an Event reported.
	LastPlanFault string
	// NextPlan is the earliest time for the next plan.
	NextPlan time.Time
	// PlanFailures is the number of consecutive plans that could not be published.
	PlanFailures int
}

// newSet returns the state of a set that was not read yet.
func newSet() *Set { return &Set{Content: &desired.Content{}} }

// Invalidate makes the next apply read the content again and compare every object.
func (s *Set) Invalidate() { s.Loaded, s.Settled, s.Watched = false, false, false }

// ApplyAs records the user with whose rights the set is applied. If that is another user than before, the next apply compares every object:
// the new user may lack rights, and must not see content that the former user read.
func (s *Set) ApplyAs(user string) {
	if s.user != nil && *s.user != user {
		s.Invalidate()
		s.AuditOwed = true
		for _, each := range s.Objects {
			each.Known.Claimant = ""
		}
		s.Sources, s.Former = nil, nil
	}
	s.user = &user
}

// MarkListed records that the status lists exactly the objects of the content. The argument reported is the digest of that list.
func (s *Set) MarkListed(reported uint64) {
	s.Settled, s.Reported, s.References, s.Announced = true, reported, nil, ""
}

// BeginDeletion begins the deletion of all objects of the set, unless it began before.
func (s *Set) BeginDeletion() {
	if !s.Deletion.OfWholeSet() {
		s.Deletion, s.NeverWritten = prune.NewProgress(true, s.Unwritten()), nil
	}
}

// Replace replaces the content of the set, and keeps the knowledge about objects that stay in it.
func (s *Set) Replace(decoded desired.Decoded) {
	known := make(map[inventory.Key]engine.Knowledge, len(s.Objects))
	for _, each := range s.Objects {
		known[each.Key] = each.Known
	}
	neverWritten := s.Unwritten()
	s.Objects = make([]*Object, 0, len(decoded.Items))
	for _, each := range decoded.Items {
		s.Objects = append(s.Objects, &Object{each, known[each.Key]})
		delete(neverWritten, each.Key)
	}
	s.Content, s.References = decoded.Content, decoded.References
	s.Loaded, s.Settled, s.Watched = true, false, false
	s.Leaving, s.Pruned = Leaving{NeverWritten: neverWritten}, false
}

// Wait keeps the content, which was applied completely, as Former: later content replaces it now, and may have to wait.
func (s *Set) Wait() {
	if s.Sources != nil {
		s.Former = &Former{Sources: s.Sources, Content: s.Content, Objects: s.Objects}
	}
}

// Restoring returns the memory for the restoration of the objects of Former. The caller must call Restored afterwards.
func (s *Set) Restoring() *Set {
	return &Set{Content: s.Former.Content, Objects: s.Former.Objects, Due: s.Due, InitialStatusTime: s.InitialStatusTime, Kstatus: s.Kstatus}
}

// Restored takes over the knowledge about objects from the result of Restoring.
func (s *Set) Restored(former *Set) {
	s.Due = former.Due
	known := make(map[inventory.Key]engine.Knowledge, len(former.Objects))
	for _, each := range former.Objects {
		known[each.Key] = each.Known
	}
	for _, each := range s.Objects {
		if of, found := known[each.Key]; found {
			each.Known = of
		}
	}
}

// Unwritten lists objects that were announced in the status but never written, so that they need no deletion if the set drops them. The
// result includes NeverWritten: objects that the set has already dropped and the status may still list.
func (s *Set) Unwritten() sets.Set[inventory.Key] {
	keys := s.NeverWritten.Clone()
	for _, each := range s.Objects {
		if each.Known.Unwritten {
			keys.Insert(each.Key)
		}
	}
	return keys
}

// Last returns the objects of the set; of several with the same key, only the last.
func (s *Set) Last() []*Object {
	last := make(map[inventory.Key]*Object, len(s.Objects))
	for _, each := range s.Objects {
		last[each.Key] = each
	}
	if len(last) == len(s.Objects) {
		return s.Objects
	}
	return slices.DeleteFunc(slices.Clone(s.Objects), func(o *Object) bool { return last[o.Key] != o })
}
