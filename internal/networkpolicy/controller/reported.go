package controller

import (
	"slices"
	"sync"

	"k8s.io/apimachinery/pkg/types"
)

// Reported remembers the last Events about Services, so that a fault is reported once, not in each reconciliation. After a restart
// everything
// is reported again. The zero value is ready for use, and safe for concurrent use.
type Reported struct {
	mu    sync.Mutex
	notes map[string]map[types.NamespacedName][]string // by reason
}

// news returns the notes that are new. If complete is true, it drops previous notes that are not among them; otherwise they stay.
func (t *Reported) news(service types.NamespacedName, reason string, notes []string, complete bool) []string {
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.notes == nil {
		t.notes = map[string]map[types.NamespacedName][]string{}
	}
	if t.notes[reason] == nil {
		t.notes[reason] = map[types.NamespacedName][]string{}
	}
	before := t.notes[reason][service]
	var fresh []string
	for _, note := range notes {
		if !slices.Contains(before, note) {
			fresh = append(fresh, note)
		}
	}
	after := slices.Concat(before, fresh)
	if complete {
		after = slices.Clone(notes)
	}
	if len(after) == 0 {
		delete(t.notes[reason], service)
	} else {
		t.notes[reason][service] = after
	}
	return fresh
}

// services returns the number of Services with notes for a reason.
func (t *Reported) services(reason string) int {
	t.mu.Lock()
	defer t.mu.Unlock()
	return len(t.notes[reason])
}
