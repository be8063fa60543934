package controller

import (
	"slices"
	"sync"

	"k8s.io/apimachinery/pkg/types"
)

// Waiting remembers which Services need the name of a policy that another Service has. A restart costs nothing, since it reconciles every
// Service. The zero value is ready for use, and safe for concurrent use.
type Waiting struct {
	mu       sync.Mutex
	policies map[types.NamespacedName][]types.NamespacedName // by Service
}

// set records for which policies a Service waits. If complete is true, it replaces the previous records.
func (w *Waiting) set(service types.NamespacedName, conflicts []conflict, complete bool) {
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
func (w *Waiting) forPolicy(policy types.NamespacedName) []types.NamespacedName {
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
