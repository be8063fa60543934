package prune

import (
	"time"

	"k8s.io/apimachinery/pkg/util/sets"

	resourcesv1alpha1 "github.com/espalier-dev/espalier/api/resources/v1alpha1"
	"github.com/espalier-dev/espalier/internal/apply/inventory"
	"github.com/espalier-dev/espalier/internal/apply/observe"
)

// Progress is the progress of the deletion of a set's objects. After a restart it is empty, which costs a read per object. Delete changes
// it only between two waves.
type Progress struct {
	wholeSet bool
	// Began is when the deletion began.
	Began time.Time
	// done contains the objects that are gone, or that are kept.
	done sets.Set[inventory.Key]
	// waves contains the time at which the deletion of each wave began. The key is the first object of the wave.
	waves map[inventory.Key]time.Time
	// requested contains the versions of objects whose deletion was requested and that still exist: a watch may still show
	// these versions.
	requested map[inventory.Key]string
	// Reported are the facts of the last condition about the deletion.
	Reported string
}

// NewProgress returns the progress before a deletion. WholeSet is true if all objects of the set are deleted, and not only those that it no
// longer contains. NeverWritten are objects of which there is nothing to delete.
func NewProgress(wholeSet bool, neverWritten sets.Set[inventory.Key]) *Progress {
	return &Progress{
		wholeSet: wholeSet, done: neverWritten.Clone(), waves: map[inventory.Key]time.Time{}, requested: map[inventory.Key]string{},
	}
}

// OfWholeSet reports whether all objects of the set are deleted.
func (p *Progress) OfWholeSet() bool { return p != nil && p.wholeSet }

// begin records the begin of the deletion. If the clock was set back since then, the deletion counts as begun now.
func (p *Progress) begin(now time.Time) {
	if p.Began.IsZero() || now.Before(p.Began) {
		p.Began = now
	}
}

// waveBegan returns when the deletion of a wave was first blocked, now if the clock was set back since then.
func (p *Progress) waveBegan(wave inventory.Key, now time.Time) time.Time {
	if began, found := p.waves[wave]; !found || now.Before(began) {
		p.waves[wave] = now
	}
	return p.waves[wave]
}

// left returns the objects that are not done.
func (p *Progress) left(refs []resourcesv1alpha1.ObjectReference) []resourcesv1alpha1.ObjectReference {
	var left []resourcesv1alpha1.ObjectReference
	for _, ref := range refs {
		if !p.done.Has(inventory.RefKey(ref)) {
			left = append(left, ref)
		}
	}
	return left
}

func (p *Progress) record(key inventory.Key, s step) {
	if s.done {
		p.done.Insert(key)
	}
	if s.requested != "" {
		p.requested[key] = s.requested
	}
}

// wasRequested reports whether the deletion of exactly this version was requested before: the watch does not show the deletion yet.
func (p *Progress) wasRequested(key inventory.Key, seen observe.Object) bool {
	return seen.Deleted.IsZero() && p.requested[key] == seen.ResourceVersion
}
