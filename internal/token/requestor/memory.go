package requestor

import (
	"reflect"
	"sync"
	"time"

	"k8s.io/apimachinery/pkg/types"
)

// reuse is how long a token that could not be written is kept for another attempt. It is short, because the key that signed the token may
// be about to be withdrawn.
const reuse = time.Minute

// order contains the parameters of a token request.
type order struct {
	account types.NamespacedName
	// uid distinguishes a ServiceAccount from a deleted one of the same name, whose tokens are invalid.
	uid       types.UID
	lifetime  time.Duration
	audiences []string
}

// entry is the memory about one Secret of the source.
type entry struct {
	// superseded is the version of the Secret over which this process has written. While the cache shows this version, the event for that
	// write has not arrived.
	superseded string
	// failure is the failure that was last reported; empty if there is none.
	failure string
	// pending is a token that was issued for the order pendingFor and could not be written; nil if there is none.
	pending    *issued
	pendingFor order
	// held and expiry describe the token in the Secret or its target Secret, as last read.
	held   bool
	expiry time.Time
}

// Memory stores the result of the last reconciliation of each Secret. A restart of the process loses it: an Event may be sent again, and a
// token that was issued but not written is lost. All methods may be called concurrently.
type Memory struct {
	mu      sync.Mutex
	entries map[types.NamespacedName]*entry
}

// NewMemory returns an empty memory.
func NewMemory() *Memory { return &Memory{entries: map[types.NamespacedName]*entry{}} }

func (m *Memory) forget(secret types.NamespacedName) {
	m.mu.Lock()
	defer m.mu.Unlock()
	delete(m.entries, secret)
}

// change calls do on the entry of a Secret.
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

// outdated reports whether this process has overwritten that version of the Secret.
func (m *Memory) outdated(secret types.NamespacedName, version string) bool {
	m.mu.Lock()
	defer m.mu.Unlock()
	e := m.entries[secret]
	return e != nil && e.superseded == version
}

// looked records whether a Secret contains a token, and its expiry.
func (m *Memory) looked(secret types.NamespacedName, held bool, expiry time.Time) {
	m.change(secret, func(e *entry) { e.held, e.expiry = held, expiry })
}

// keep stores a token until it is written.
func (m *Memory) keep(secret types.NamespacedName, token issued, of order) {
	m.change(secret, func(e *entry) { e.pending, e.pendingFor = &token, of })
}

// kept returns a token that was recently issued for the same order and is not written yet; nil if there is none.
func (m *Memory) kept(secret types.NamespacedName, of order, now time.Time) *issued {
	m.mu.Lock()
	defer m.mu.Unlock()
	e := m.entries[secret]
	if e == nil || e.pending == nil || now.Sub(e.pending.at) > reuse || !reflect.DeepEqual(e.pendingFor, of) {
		return nil
	}
	return e.pending
}

// tidy forgets a token that was not written, if it is too old or no longer wanted.
func (m *Memory) tidy(secret types.NamespacedName, wanted bool, now time.Time) {
	m.change(secret, func(e *entry) {
		if e.pending != nil && (!wanted || now.Sub(e.pending.at) > reuse) {
			e.pending, e.pendingFor = nil, order{}
		}
	})
}

// wrote records that a token was written over a version of a Secret.
func (m *Memory) wrote(secret types.NamespacedName, version string, expiry time.Time) {
	m.change(secret, func(e *entry) { *e = entry{superseded: version, failure: e.failure, held: true, expiry: expiry} })
}

// news records the current failure, "" if there is none, and reports whether it differs from the last one.
func (m *Memory) news(secret types.NamespacedName, failure string) (changed bool) {
	m.change(secret, func(e *entry) {
		changed = e.failure != failure
		e.failure = failure
	})
	return changed
}

// tokens returns the entries of all Secrets.
func (m *Memory) tokens() []entry {
	m.mu.Lock()
	defer m.mu.Unlock()
	all := make([]entry, 0, len(m.entries))
	for _, each := range m.entries {
		all = append(all, entry{failure: each.failure, held: each.held, expiry: each.expiry})
	}
	return all
}
