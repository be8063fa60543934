package extensionaccess

import "sync"

// outcome is what became of a labelled ClusterRole: it is bound, or there is a reason why not. The zero value is that of one
// that is not labelled any more.
type outcome struct {
	bound        bool
	reason, note string
}

// outcomes remembers what became of each labelled ClusterRole, so that metrics count each once and an Event is sent for a
// failure only when it is another than before. The zero value is ready; its methods may be called concurrently. After a
// restart, failures that last are told of once more.
type outcomes struct {
	mu sync.Mutex
	of map[string]outcome
}

// set remembers an outcome, and tells whether it is another than before.
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
