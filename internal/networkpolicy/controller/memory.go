package controller

import (
	"slices"
	"sync"
	"time"

	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/utils/clock"

	"github.com/espalier-dev/espalier/internal/networkpolicy/desired"
)

// writeAge is how long a write may take to arrive in the cache.
const writeAge = time.Minute

// gone is the fingerprint of a deleted policy.
const gone = ""

// Writes remembers the controller's own writes until the cache contains them, but no longer than writeAge. So the controller writes
// nothing twice, and the events of its own writes cause no work. It is safe for concurrent use. After a restart it is empty; that does no
// harm, because the controller reads everything at start.
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

// arrived must be called when the cache has a new state of a policy. It reports whether this state is the controller's own last write. Any
// other state counts as a write of another client.
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

// The types scopes, selections and waiting are safe for concurrent use, and their zero values are ready for use. A restart costs nothing,
// because after it the controller reconciles everything.

// scopes remembers, for each Service in the queue, how much of it must be reconciled: everything, or only its policies for some client
// namespaces.
type scopes struct {
	mu      sync.Mutex
	pending map[types.NamespacedName]*scope
}

// scope is how much of a Service is reconciled at once.
type scope struct {
	whole bool
	// clients are the namespaces to reconcile if whole is false.
	clients map[string]bool
}

// requestAll requests a reconciliation of everything about a Service.
func (s *scopes) requestAll(service types.NamespacedName) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.of(service).whole = true
}

// requestClient requests a reconciliation of the policies of a Service for clients in a namespace.
func (s *scopes) requestClient(service types.NamespacedName, namespace string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.of(service).clients[namespace] = true
}

// take returns and drops the requested scope. Without one the run is a retry, so everything is reconciled.
func (s *scopes) take(service types.NamespacedName) scope {
	s.mu.Lock()
	defer s.mu.Unlock()
	asked, ok := s.pending[service]
	if !ok {
		return scope{whole: true}
	}
	delete(s.pending, service)
	return *asked
}

// of returns the scope of a Service. The caller must have locked s.mu.
func (s *scopes) of(service types.NamespacedName) *scope {
	if s.pending == nil {
		s.pending = map[types.NamespacedName]*scope{}
	}
	if s.pending[service] == nil {
		s.pending[service] = &scope{clients: map[string]bool{}}
	}
	return s.pending[service]
}

// selections finds the Services that select a namespace as a client. It evaluates each value of the annotation once, and not once per
// Service, because most Services have the same value in their annotation. It is filled from the cache of Services.
type selections struct {
	mu     sync.Mutex
	byText map[string]*choice
	textOf map[types.NamespacedName]string
}

// choice is one value of the annotation, with the Services that have it.
type choice struct {
	selectors []labels.Selector // empty if the value is invalid
	services  map[types.NamespacedName]bool
}

// set records the value of a Service's annotation; present is false if there is none.
func (s *selections) set(service types.NamespacedName, text string, present bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.remove(service)
	if !present {
		return
	}
	if s.byText == nil {
		s.byText, s.textOf = map[string]*choice{}, map[types.NamespacedName]string{}
	}
	if s.byText[text] == nil {
		selectors, _ := desired.Selectors(text) // the reconciler reports the fault
		s.byText[text] = &choice{selectors: selectors, services: map[types.NamespacedName]bool{}}
	}
	s.byText[text].services[service] = true
	s.textOf[service] = text
}

// remove drops a Service. The caller must have locked s.mu.
func (s *selections) remove(service types.NamespacedName) {
	text, ok := s.textOf[service]
	if !ok {
		return
	}
	delete(s.textOf, service)
	delete(s.byText[text].services, service)
	if len(s.byText[text].services) == 0 {
		delete(s.byText, text)
	}
}

// differing returns the Services that select exactly one of two label sets. No Service selects a nil set.
func (s *selections) differing(before, after labels.Set) []types.NamespacedName {
	s.mu.Lock()
	defer s.mu.Unlock()
	var services []types.NamespacedName
	for _, each := range s.byText {
		was := before != nil && desired.Matches(each.selectors, before)
		is := after != nil && desired.Matches(each.selectors, after)
		if was == is {
			continue
		}
		for service := range each.services {
			services = append(services, service)
		}
	}
	return services
}

// waiting remembers which Services need the names of which policies, because existing policies of other owners have these names.
type waiting struct {
	mu       sync.Mutex
	policies map[types.NamespacedName][]types.NamespacedName // by Service
}

// set records for which policies a Service waits. If complete is true, it replaces the previous records.
func (w *waiting) set(service types.NamespacedName, conflicts []conflict, complete bool) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if complete {
		delete(w.policies, service)
	}
	if len(conflicts) == 0 {
		return
	}
	if w.policies == nil {
		w.policies = map[types.NamespacedName][]types.NamespacedName{}
	}
	for _, each := range conflicts {
		w.policies[service] = append(w.policies[service], each.policy)
	}
}

// forPolicy returns the Services that wait for a policy.
func (w *waiting) forPolicy(policy types.NamespacedName) []types.NamespacedName {
	w.mu.Lock()
	defer w.mu.Unlock()
	var services []types.NamespacedName
	for service, policies := range w.policies {
		if slices.Contains(policies, policy) {
			services = append(services, service)
		}
	}
	return services
}
