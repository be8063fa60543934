package controller

import (
	"slices"
	"sync"

	"k8s.io/apimachinery/pkg/types"
)

// Waiting remembers which Services want the name of a policy that another Service has. A restart costs nothing, since
// every Service is looked at then. The zero value is ready; safe for concurrent use.
type Waiting struct {
	mu       sync.Mutex
	policies map[types.NamespacedName][]types.NamespacedName // by Service
}

// set says for which policies a Service waits. Complete forgets all others.
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

// forPolicy lists the Services that wait for a policy.
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
