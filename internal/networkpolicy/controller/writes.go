package controller

import (
	"sync"
	"time"

	"k8s.io/apimachinery/pkg/types"
	"k8s.io/utils/clock"
)

// writeAge is how long a write may take to arrive in the cache.
const writeAge = time.Minute

// gone is the fingerprint of a deleted policy.
const gone = ""

// Writes remembers the controller's own writes until they are in the cache, so that nothing is written twice, and so that their events
// cause no work. A restart costs nothing, since it reads everything. It is safe for concurrent use.
type Writes struct {
	clock clock.PassiveClock

	mu      sync.Mutex
	pending map[types.NamespacedName]map[types.NamespacedName]write // by Service, by policy
}

type write struct {
	fingerprint string
	at          time.Time
}

// NewWrites returns Writes that use a clock.
func NewWrites(passive clock.PassiveClock) *Writes {
	return &Writes{clock: passive, pending: map[types.NamespacedName]map[types.NamespacedName]write{}}
}

// begin must be called before a policy is written.
func (w *Writes) begin(service, policy types.NamespacedName, fingerprint string) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.pending[service] == nil {
		w.pending[service] = map[types.NamespacedName]write{}
	}
	w.pending[service][policy] = write{fingerprint: fingerprint, at: w.clock.Now()}
}

// fail must be called when it is not certain that the policy was written.
func (w *Writes) fail(service, policy types.NamespacedName) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.forget(service, policy)
}

// arrived must be called when the cache has a new state of a policy. It reports whether this state is the controller's own last write. If
// not, another client has written the policy since.
func (w *Writes) arrived(service, policy types.NamespacedName, fingerprint string) bool {
	w.mu.Lock()
	defer w.mu.Unlock()
	known, ok := w.pending[service][policy]
	w.forget(service, policy)
	return ok && known.fingerprint == fingerprint && w.clock.Since(known.at) < writeAge
}

// of returns the fingerprints of the policies of a Service whose writes have not arrived yet.
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

// forget drops a write. The caller must have locked w.mu.
func (w *Writes) forget(service, policy types.NamespacedName) {
	delete(w.pending[service], policy)
	if len(w.pending[service]) == 0 {
		delete(w.pending, service)
	}
}
