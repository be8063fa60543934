package process

import "runtime/debug"

// LimitGarbage lets no more garbage gather than that many percent of the memory in use before it is collected, unless the
// variable GOGC of the environment says otherwise. Go's own default is 100: in a process whose memory is mostly caches, that
// doubles them. Collecting more often costs some processor time while much is allocated, and hardly any at rest.
func LimitGarbage(percent int, environment func(string) (string, bool)) {
	if _, set := environment("GOGC"); !set {
		debug.SetGCPercent(percent)
	}
}
