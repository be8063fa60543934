package controller

import (
	"sync"

	"k8s.io/apimachinery/pkg/types"
)

// Scopes remembers, for each Service in the queue, how much of it must be reconciled: everything, or only its policies for some client
// namespaces. A restart costs nothing, since it reconciles everything. The zero value is ready for use, and safe for concurrent use.
type Scopes struct {
	mu      sync.Mutex
	pending map[types.NamespacedName]*scope
}

// scope is how much of a Service is reconciled at once.
type scope struct {
	whole bool
	// clients are the namespaces to reconcile if whole is false.
	clients map[string]bool
}

// Whole requests a reconciliation of everything about a Service.
func (s *Scopes) Whole(service types.NamespacedName) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.of(service).whole = true
}

// Client requests a reconciliation of the policies of a Service for clients in a namespace.
func (s *Scopes) Client(service types.NamespacedName, namespace string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.of(service).clients[namespace] = true
}

// take returns and drops the requested scope. Without one the run is a retry, so everything is reconciled.
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

// of returns the scope of a Service. The caller must have locked s.mu.
func (s *Scopes) of(service types.NamespacedName) *scope {
	if s.pending == nil {
		s.pending = map[types.NamespacedName]*scope{}
	}
	if s.pending[service] == nil {
		s.pending[service] = &scope{clients: map[string]bool{}}
	}
	return s.pending[service]
}
