package plan

import (
	"fmt"
	"strings"

	"github.com/espalier-dev/espalier/internal/excerpt"
)

// Leaving are the facts about an object that the set does not contain any more, or not as one of its own.
type Leaving struct {
	ID
	// Doubt says why nothing can be told of it; empty otherwise.
	Doubt string
	// Gone says that, and why, there is nothing left to do; empty otherwise.
	Gone string
	// Stays says why the object is left in the target; empty if it is not.
	Stays string
	// Released tells that the object is let go (mode "Ignore") and not deleted.
	Released bool
	// Deleted tells that it is being deleted already; Finalizers are what holds it.
	Deleted    bool
	Finalizers []string
	// Claims tells how many PersistentVolumeClaims would be deleted with it.
	Claims int
}

// Dismiss says what would be done with an object that leaves the set.
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
