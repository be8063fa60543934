package extensionaccess

import "sync"

// outcome is the result for a labelled ClusterRole: it is bound, or there is a reason why not. The zero value stands for a ClusterRole that
// does not have the label any more.
type outcome struct {
	bound        bool
	reason, note string
}

// outcomes has the last result for each labelled ClusterRole, so that metrics count each role once, and an Event is created only when the
// failure has changed. The zero value is ready for use; its methods may be called concurrently. After a restart, lasting failures are
// reported once more.
type outcomes struct {
	mu sync.Mutex
	of map[string]outcome
}

// set stores an outcome, and returns true if it differs from the previous one.
func (o *outcomes) set(name string, now outcome, metrics *Metrics) (changed bool) {
	o.mu.Lock()
	defer o.mu.Unlock()
	before := o.of[name]
	switch {
	case now == outcome{}:
		delete(o.of, name)
	case o.of == nil:
		o.of = map[string]outcome{name: now}
	default:
		o.of[name] = now
	}
	metrics.moved(before.state(), now.state())
	if now.reason != "" {
		metrics.failures.WithLabelValues(now.reason).Inc()
	}
	return before != now
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
