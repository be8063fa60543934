package extensionaccess

import (
	"fmt"

	"github.com/espalier-dev/espalier/internal/excerpt"
	"github.com/espalier-dev/espalier/internal/project/byname"
)

// outcome is the result for a labelled ClusterRole: it is bound, or there is a reason why not. The zero value stands for a ClusterRole that
// does not have the label any more.
type outcome struct {
	bound        bool
	reason, note string
}

// failed returns the outcome for a ClusterRole that is not bound. The format is that of the sentence that says why.
func failed(reason, format string, args ...any) outcome {
	return outcome{reason: reason, note: excerpt.Of("Cannot bind the role: "+fmt.Sprintf(format, args...), maxNote)}
}

// outcomes has the last result for each labelled ClusterRole, so that metrics count each role once, and an Event is created only when the
// failure has changed. After a restart, lasting failures are reported once more.
type outcomes struct{ byname.Map[outcome] }

// set stores an outcome, and returns true if it differs from the previous one.
func (o *outcomes) set(name string, now outcome, metrics *Metrics) (changed bool) {
	o.Change(name, func(last *outcome) {
		metrics.moved(last.state(), now.state())
		if now.reason != "" {
			metrics.failures.WithLabelValues(now.reason).Inc()
		}
		changed = *last != now
		*last = now
	})
	return changed
}

func (o outcome) state() string {
	switch {
	case o.bound:
		return stateBound
	case o.reason != "":
		return stateFailed
	}
	return ""
}
