package controller

import (
	"slices"
	"sync"

	"k8s.io/apimachinery/pkg/types"
)

// Told remembers what Events have said about Services, so that a fault is told once and not in each run. After a restart
// everything is told again. The zero value is ready; safe for concurrent use.
type Told struct {
	mu    sync.Mutex
	notes map[string]map[types.NamespacedName][]string // by reason
}

// news returns the notes that are new. Complete forgets all others; otherwise they stay.
func (t *Told) news(service types.NamespacedName, reason string, notes []string, complete bool) []string {
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

// services counts the Services that a reason stands against.
func (t *Told) services(reason string) int {
	t.mu.Lock()
	defer t.mu.Unlock()
	return len(t.notes[reason])
}
