package extensionaccess

import (
	"fmt"

	"github.com/espalier-dev/espalier/internal/excerpt"
	"github.com/espalier-dev/espalier/internal/project/memory"
)

// outcome is the result for a labelled ClusterRole: it is bound, or there is a reason why not. The zero value stands for a ClusterRole that
// does not have the label any more.
type outcome struct {
	bound        bool
	reason, note string
}

// failed returns the outcome for a ClusterRole that is not bound. format and args are those of fmt.Sprintf for the reason in the note.
func failed(reason, format string, args ...any) outcome {
	return outcome{reason: reason, note: excerpt.Of("Cannot bind the role: "+fmt.Sprintf(format, args...), maxNote)}
}

// Outcomes has the last outcome for each labelled ClusterRole. The zero value is ready for use. After a restart, lasting failures are
// reported once more.
type Outcomes struct {
	last memory.ByName[outcome]
}

// record stores an outcome, and reports whether an Event must be created: the outcome is a failure and differs from the previous one.
func (o *Outcomes) record(name string, now outcome) (needsEvent bool) {
	o.last.Change(name, func(last *outcome) { needsEvent, *last = *last != now && now.reason != "", now })
	return needsEvent
}

// count returns the number of ClusterRoles whose last outcome a function selects.
func (o *Outcomes) count(selects func(outcome) bool) int { return len(o.last.Names(selects)) }
