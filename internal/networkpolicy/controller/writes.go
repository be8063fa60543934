package controller

import (
	"sync"
	"time"

	"k8s.io/apimachinery/pkg/types"
	"k8s.io/utils/clock"
)

// writeAge is how long a write is believed to be on its way to the cache.
const writeAge = time.Minute

// gone is the fingerprint of a policy that was deleted.
const gone = ""

// Writes remembers what was written until the cache has it, so that nothing is written twice, and so that the events of
// our own writes cause no work. A restart costs nothing, since it reads everything. Safe for concurrent use.
type Writes struct {
	clock clock.PassiveClock

	mu      sync.Mutex
	pending map[types.NamespacedName]map[types.NamespacedName]write // by Service, by policy
}

type write struct {
	fingerprint string
	at          time.Time
}

// NewWrites returns Writes that go by a clock.
func NewWrites(passive clock.PassiveClock) *Writes {
	return &Writes{clock: passive, pending: map[types.NamespacedName]map[types.NamespacedName]write{}}
}

// begin is called before a policy is written.
func (w *Writes) begin(service, policy types.NamespacedName, fingerprint string) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.pending[service] == nil {
		w.pending[service] = map[types.NamespacedName]write{}
	}
	w.pending[service][policy] = write{fingerprint: fingerprint, at: w.clock.Now()}
}

// fail is called when it is not certain that the policy was written.
func (w *Writes) fail(service, policy types.NamespacedName) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.forget(service, policy)
}

// arrived is called when the cache has a policy in another state, and tells whether that is what we have written. If it is
// not, somebody else has written since.
func (w *Writes) arrived(service, policy types.NamespacedName, fingerprint string) bool {
	w.mu.Lock()
	defer w.mu.Unlock()
	known, ok := w.pending[service][policy]
	w.forget(service, policy)
	return ok && known.fingerprint == fingerprint && w.clock.Since(known.at) < writeAge
}

// of returns the fingerprints of the policies of a Service that were written and have not arrived.
func (w *Writes) of(service types.NamespacedName) map[types.NamespacedName]string {
	w.mu.Lock()
	defer w.mu.Unlock()
	fingerprints := map[types.NamespacedName]string{}
	for policy, known := range w.pending[service] {
		if w.clock.Since(known.at) >= writeAge {
			w.forget(service, policy)
			continue
		}
		fingerprints[policy] = known.fingerprint
	}
	return fingerprints
}

// forget is called with the lock held.
func (w *Writes) forget(service, policy types.NamespacedName) {
	delete(w.pending[service], policy)
	if len(w.pending[service]) == 0 {
		delete(w.pending, service)
	}
}
