package requestor

import (
	"reflect"
	"sync"
	"time"

	"k8s.io/apimachinery/pkg/types"
)

// reuse is how long a token that could not be written is kept to be written after all. Not longer: it may have been
// signed with a key that is about to be withdrawn.
const reuse = time.Minute

// order is what a token was issued for.
type order struct {
	account types.NamespacedName
	// uid tells a ServiceAccount from another one of its name, which was deleted, and whose tokens are worthless.
	uid       types.UID
	lifetime  time.Duration
	audiences []string
}

// entry is what is remembered of one Secret.
type entry struct {
	// superseded is the version that we have written over: as long as the cache shows it, its news are on their way.
	superseded string
	// failure is what was told last of what goes wrong; empty: nothing does.
	failure string
	// pending is a token that was issued for pendingFor and could not be written.
	pending    *issued
	pendingFor order
	// held and expiry are the token in the Secret or its target, as of the last look.
	held   bool
	expiry time.Time
}

// Memory knows of each Secret what its last reconciliation left. A restart costs nothing but an Event that is repeated,
// and a token that was not written. All methods may be called concurrently.
type Memory struct {
	mu      sync.Mutex
	entries map[types.NamespacedName]*entry
}

// NewMemory returns a memory of nothing.
func NewMemory() *Memory { return &Memory{entries: map[types.NamespacedName]*entry{}} }

func (m *Memory) forget(secret types.NamespacedName) {
	m.mu.Lock()
	defer m.mu.Unlock()
	delete(m.entries, secret)
}

// change lets do work on what is remembered of a Secret.
func (m *Memory) change(secret types.NamespacedName, do func(*entry)) {
	m.mu.Lock()
	defer m.mu.Unlock()
	e := m.entries[secret]
	if e == nil {
		e = &entry{}
		m.entries[secret] = e
	}
	do(e)
}

// outdated tells whether a version is one that we have written over.
func (m *Memory) outdated(secret types.NamespacedName, version string) bool {
	m.mu.Lock()
	defer m.mu.Unlock()
	e := m.entries[secret]
	return e != nil && e.superseded == version
}

// looked notes what a Secret holds.
func (m *Memory) looked(secret types.NamespacedName, held bool, expiry time.Time) {
	m.change(secret, func(e *entry) { e.held, e.expiry = held, expiry })
}

// keep remembers a token until it is written.
func (m *Memory) keep(secret types.NamespacedName, token issued, of order) {
	m.change(secret, func(e *entry) { e.pending, e.pendingFor = &token, of })
}

// kept returns the token that was issued for such an order a moment ago and was not written; nil if there is none.
func (m *Memory) kept(secret types.NamespacedName, of order, now time.Time) *issued {
	m.mu.Lock()
	defer m.mu.Unlock()
	e := m.entries[secret]
	if e == nil || e.pending == nil || now.Sub(e.pending.at) > reuse || !reflect.DeepEqual(e.pendingFor, of) {
		return nil
	}
	return e.pending
}

// tidy removes a token that was not written if it will not be: it is too old, or nobody waits for it any more.
func (m *Memory) tidy(secret types.NamespacedName, wanted bool, now time.Time) {
	m.change(secret, func(e *entry) {
		if e.pending != nil && (!wanted || now.Sub(e.pending.at) > reuse) {
			e.pending, e.pendingFor = nil, order{}
		}
	})
}

// wrote notes that a token was written over a version of a Secret.
func (m *Memory) wrote(secret types.NamespacedName, version string, expiry time.Time) {
	m.change(secret, func(e *entry) { *e = entry{superseded: version, failure: e.failure, held: true, expiry: expiry} })
}

// news notes what goes wrong, "" if nothing does, and tells whether that is another thing than before.
func (m *Memory) news(secret types.NamespacedName, failure string) (changed bool) {
	m.change(secret, func(e *entry) {
		changed = e.failure != failure
		e.failure = failure
	})
	return changed
}

// tokens lists what is known of all Secrets.
func (m *Memory) tokens() []entry {
	m.mu.Lock()
	defer m.mu.Unlock()
	all := make([]entry, 0, len(m.entries))
	for _, each := range m.entries {
		all = append(all, entry{failure: each.failure, held: each.held, expiry: each.expiry})
	}
	return all
}
