package controller

import (
	"sync"

	"k8s.io/apimachinery/pkg/types"
)

// Scopes remembers, for each Service that waits in the queue, how much of it must be looked at: all of it, or only its
// policies for some client namespaces. A restart costs nothing, since it looks at all of everything. The zero value is
// ready; safe for concurrent use.
type Scopes struct {
	mu      sync.Mutex
	pending map[types.NamespacedName]*scope
}

// scope is how much of a Service is looked at in one run.
type scope struct {
	whole bool
	// clients are the namespaces that count if it is not the whole.
	clients map[string]bool
}

// Whole asks for everything about a Service.
func (s *Scopes) Whole(service types.NamespacedName) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.of(service).whole = true
}

// Client asks for the policies of a Service that are for clients in a namespace.
func (s *Scopes) Client(service types.NamespacedName, namespace string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.of(service).clients[namespace] = true
}

// take returns what was asked for and forgets it. If that is nothing, a run is repeated: everything counts.
func (s *Scopes) take(service types.NamespacedName) scope {
	s.mu.Lock()
	defer s.mu.Unlock()
	asked, ok := s.pending[service]
	if !ok {
		return scope{whole: true}
	}
	delete(s.pending, service)
	return *asked
}

// of is called with the lock held.
func (s *Scopes) of(service types.NamespacedName) *scope {
	if s.pending == nil {
		s.pending = map[types.NamespacedName]*scope{}
	}
	if s.pending[service] == nil {
		s.pending[service] = &scope{clients: map[string]bool{}}
	}
	return s.pending[service]
}
