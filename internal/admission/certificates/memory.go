package certificates

import (
	"slices"
	"sync"
	"time"
)

// remembers is the maximum number of states that a process remembers. A process needs more than one state, because a wrong clock can make
// the newest states useless.
const remembers = 8

// memory keeps the states that this process has read from the Secret, newest first. The zero value is empty.
type memory struct {
	mu     sync.Mutex
	states []*state
}

// newest returns the state that was read last; nil if none was read.
func (m *memory) newest() *state {
	return m.first(func(*state) bool { return true })
}

// trustworthy returns the newest state whose authority is valid; nil if there is none.
func (m *memory) trustworthy(now time.Time) *state {
	return m.first(func(s *state) bool { return valid(s.authority.certificate, now) })
}

// servable returns the newest state whose certificate is valid; nil if there is none.
func (m *memory) servable(now time.Time) *state {
	return m.first(func(s *state) bool { return valid(s.serving.certificate, now) })
}

func (m *memory) first(is func(*state) bool) *state {
	m.mu.Lock()
	defer m.mu.Unlock()
	for _, s := range m.states {
		if is(s) {
			return s
		}
	}
	return nil
}

// add puts a state in front of the others, and returns the state that was the newest before.
func (m *memory) add(s *state) (before *state) {
	m.mu.Lock()
	defer m.mu.Unlock()
	if len(m.states) > 0 {
		before = m.states[0]
	}
	// Of states with the same certificate, only the newest is of use.
	older := slices.DeleteFunc(m.states, func(old *state) bool { return old.serving.certificate.Equal(s.serving.certificate) })
	m.states = append([]*state{s}, older[:min(len(older), remembers-1)]...)
	return before
}
