package general

import (
	"sync"
	"time"

	networkingv1 "k8s.io/api/networking/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/espalier-dev/espalier/internal/networkpolicy/desired"
	"github.com/espalier-dev/espalier/internal/repair"
)

// repairs counts the writes that restore the same content of a policy, and delays such writes if another client changes the policy again
// and again. A restart forgets the counts. The zero value is ready for use, and safe for concurrent use.
type repairs struct {
	mu       sync.Mutex
	policies map[string]map[string]*repair.Backoff // by namespace and name
}

// state identifies the result of a write of a policy: its fingerprint, or "deleted" if want is nil.
func state(want *networkingv1.NetworkPolicy) string {
	if want == nil {
		return "deleted"
	}
	return desired.Fingerprint(want)
}

// remaining returns how long a write that makes a policy as wanted must still wait, and the length of the whole pause.
func (r *repairs) remaining(policy types.NamespacedName, want *networkingv1.NetworkPolicy, now time.Time) (pause, remaining time.Duration) {
	r.mu.Lock()
	defer r.mu.Unlock()
	known := r.policies[policy.Namespace][policy.Name]
	if known.Cause() != state(want) {
		return 0, 0
	}
	return known.Pause(), known.Remaining(now)
}

// isLast reports whether the controller's last write made the policy as wanted. If the cache shows something else, the cache may be
// outdated.
func (r *repairs) isLast(policy types.NamespacedName, want *networkingv1.NetworkPolicy) bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	last := r.policies[policy.Namespace][policy.Name]
	return last != nil && last.Cause() == state(want)
}

func (r *repairs) wrote(policy types.NamespacedName, want *networkingv1.NetworkPolicy, now time.Time) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.policies == nil {
		r.policies = map[string]map[string]*repair.Backoff{}
	}
	if r.policies[policy.Namespace] == nil {
		r.policies[policy.Namespace] = map[string]*repair.Backoff{}
	}
	next, _ := r.policies[policy.Namespace][policy.Name].Repaired(state(want), now)
	r.policies[policy.Namespace][policy.Name] = next
}

func (r *repairs) forget(namespace string) {
	r.mu.Lock()
	defer r.mu.Unlock()
	delete(r.policies, namespace)
}
