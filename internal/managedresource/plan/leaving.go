package plan

import (
	"fmt"
	"strings"

	"github.com/espalier-dev/espalier/internal/excerpt"
)

// Leaving are the facts about an object that the set no longer contains, or no longer manages.
type Leaving struct {
	ID
	// Doubt says why the result is unknown; empty otherwise.
	Doubt string
	// Gone says why there is nothing left to do; empty otherwise.
	Gone string
	// Stays says why the object is kept in the target; empty if it is not.
	Stays string
	// Released is true if the object is released (mode "Ignore") and not deleted.
	Released bool
	// Deleted is true if it is being deleted already; Finalizers are those that block the deletion.
	Deleted    bool
	Finalizers []string
	// Claims is the number of PersistentVolumeClaims that would be deleted with it.
	Claims int
}

// Dismiss returns what would be done with an object that leaves the set.
func Dismiss(l Leaving) Object {
	o := Object{ID: l.ID}
	switch {
	case l.Doubt != "":
		o.Action, o.Note = Unknown, "cannot tell: "+l.Doubt
	case l.Gone != "":
		o.Action, o.Note = Unchanged, l.Gone
	case l.Stays != "":
		o.Action, o.Note = Keep, l.Stays
	case l.Released:
		o.Action, o.Note = Release, `mode "Ignore": it stays, without the marks of the set`
	default:
		o.Action = Delete
		if l.Deleted {
			o.note("it is being deleted already")
		}
		if len(l.Finalizers) > 0 {
			o.note("it is gone only when its finalizers are removed: " + strings.Join(l.Finalizers, ", "))
		}
		if l.Claims > 0 {
			o.note(fmt.Sprintf("with it %d PersistentVolumeClaims", l.Claims))
		}
	}
	o.Note = excerpt.Of(o.Note, maxNote)
	return o
}
