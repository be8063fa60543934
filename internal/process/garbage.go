package process

import "runtime/debug"

// LimitGarbage sets the garbage collection target to that many percent of the memory in use, unless the environment variable GOGC is set.
// Go's default is 100: in a process whose memory is mostly caches, that doubles the memory. A lower target costs some processor time while
// the process allocates much memory, and hardly any when it is idle.
func LimitGarbage(percent int, environment func(string) (string, bool)) {
	if _, set := environment("GOGC"); !set {
		debug.SetGCPercent(percent)
	}
}
