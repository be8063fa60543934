package controller

import (
	"sync"
	"time"

	"k8s.io/apimachinery/pkg/types"
	"k8s.io/utils/clock"

	"github.com/espalier-dev/espalier/internal/networkpolicy/desired"
	"github.com/espalier-dev/espalier/internal/repair"
)

// recordAge is how long the record of a policy is kept after its last event.
const recordAge = 3 * repair.LongestPause

// Repairs records which policies another client keeps changing or deleting, and delays their repair. A restart forgets all records. It is
// safe for concurrent use.
type Repairs struct {
	clock clock.PassiveClock

	mu       sync.Mutex
	policies map[types.NamespacedName]*repairRecord
	swept    time.Time
}

// repairRecord is the record of one policy.
type repairRecord struct {
	// disturbed is true if another client has written the policy since the controller did.
	disturbed bool
	// backoff counts the repairs. Their cause is the fingerprint of the state that they restore; a write of another state is no repair.
	backoff *repair.Backoff
	// last is the time of the last event or write.
	last time.Time
}

// pausedRepair is a policy that is not repaired for some time.
type pausedRepair struct {
	policy types.NamespacedName
	// remaining is the remaining time, pause the total length.
	remaining, pause time.Duration
}

func (p pausedRepair) String() string { return desired.RepairsPause(p.policy, p.pause) }

// NewRepairs returns Repairs that use a clock.
func NewRepairs(passive clock.PassiveClock) *Repairs {
	return &Repairs{clock: passive, policies: map[types.NamespacedName]*repairRecord{}, swept: passive.Now()}
}

// disturbed must be called when another client has written a policy.
func (r *Repairs) disturbed(policy types.NamespacedName) {
	r.mu.Lock()
	defer r.mu.Unlock()
	now := r.clock.Now()
	r.sweep(now)
	if r.policies[policy] == nil {
		r.policies[policy] = &repairRecord{}
	}
	r.policies[policy].disturbed, r.policies[policy].last = true, now
}

// wrote must be called when the controller has written a policy. The write is a repair if the policy was disturbed.
func (r *Repairs) wrote(policy types.NamespacedName, fingerprint string) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if known := r.policies[policy]; known != nil && known.disturbed {
		now := r.clock.Now()
		next, _ := known.backoff.Repaired(fingerprint, now)
		*known = repairRecord{backoff: next, last: now}
	}
}

// isPaused reports whether a change must wait because it would restore the same state of a policy again.
func (r *Repairs) isPaused(c change) (pausedRepair, bool) {
	r.mu.Lock()
	defer r.mu.Unlock()
	known := r.policies[c.policy]
	if known == nil || known.backoff.Cause() != c.fingerprint() {
		return pausedRepair{}, false
	}
	remaining := known.backoff.Remaining(r.clock.Now())
	return pausedRepair{policy: c.policy, remaining: remaining, pause: known.backoff.Pause()}, remaining > 0
}

// sweep drops old records from time to time. The caller must have locked r.mu.
func (r *Repairs) sweep(now time.Time) {
	if now.Sub(r.swept) < recordAge {
		return
	}
	r.swept = now
	for policy, known := range r.policies {
		if now.Sub(known.last) >= recordAge {
			delete(r.policies, policy)
		}
	}
}

// split separates the changes that must wait for the end of a pause.
func (r *Repairs) split(changes []change) (rest []change, paused []pausedRepair) {
	for _, each := range changes {
		if p, ok := r.isPaused(each); ok {
			paused = append(paused, p)
		} else {
			rest = append(rest, each)
		}
	}
	return rest, paused
}
