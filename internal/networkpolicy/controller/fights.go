package controller

import (
	"fmt"
	"sync"
	"time"

	"k8s.io/apimachinery/pkg/types"
	"k8s.io/utils/clock"
)

const (
	// fightLimit is the number of repairs of one policy within fightWindow that count as a fight with another client.
	fightLimit  = 3
	fightWindow = time.Minute
	// Repairs pause for shortestTruce after the first fight. Each further pause is twice as long, up to longestTruce.
	shortestTruce = 10 * time.Second
	longestTruce  = 5 * time.Minute
	// fightAge is how long the record of a policy is kept after its last event.
	fightAge = 3 * longestTruce
)

// Fights remembers which policies another client keeps changing or deleting, so that the controller does not repair them without end. A
// restart forgets all fights. It is safe for concurrent use.
type Fights struct {
	clock clock.PassiveClock

	mu       sync.Mutex
	policies map[types.NamespacedName]*fight
	swept    time.Time
}

// fight is the record of one policy.
type fight struct {
	// disturbed is true if another client has written the policy since the controller did.
	disturbed bool
	// fingerprint is the state that the repairs restore; a write of another state is no repair.
	fingerprint string
	repairs     []time.Time
	truce       time.Duration
	until       time.Time
	// last is the time of the last event or write.
	last time.Time
}

// truce is a policy that is not repaired for some time.
type truce struct {
	policy types.NamespacedName
	// rest is the remaining time, whole the total length.
	rest, whole time.Duration
}

func (t truce) String() string {
	return fmt.Sprintf("Repairs of NetworkPolicy %s pause for %s, since another client changes or deletes it again and again: find this client in its managedFields or the audit log, and stop it", t.policy, t.whole)
}

// NewFights returns Fights that use a clock.
func NewFights(passive clock.PassiveClock) *Fights {
	return &Fights{clock: passive, policies: map[types.NamespacedName]*fight{}, swept: passive.Now()}
}

// disturbed must be called when another client has written a policy.
func (f *Fights) disturbed(policy types.NamespacedName) {
	f.mu.Lock()
	defer f.mu.Unlock()
	now := f.clock.Now()
	f.sweep(now)
	if f.policies[policy] == nil {
		f.policies[policy] = &fight{}
	}
	f.policies[policy].disturbed, f.policies[policy].last = true, now
}

// wrote must be called when the controller has written a policy. The write is a repair if the policy was disturbed.
func (f *Fights) wrote(policy types.NamespacedName, fingerprint string) {
	f.mu.Lock()
	defer f.mu.Unlock()
	if known := f.policies[policy]; known != nil && known.disturbed {
		*known = known.repaired(fingerprint, f.clock.Now())
	}
}

// repaired returns the fight after one more repair.
func (f fight) repaired(fingerprint string, now time.Time) fight {
	if f.fingerprint != fingerprint || !f.until.IsZero() && now.Sub(f.until) > 2*longestTruce {
		f = fight{fingerprint: fingerprint}
	}
	recent := []time.Time{now}
	for _, at := range f.repairs {
		if now.Sub(at) < fightWindow {
			recent = append(recent, at)
		}
	}
	f.disturbed, f.last, f.repairs = false, now, recent
	if len(recent) < fightLimit {
		return f
	}
	f.truce = min(max(2*f.truce, shortestTruce), longestTruce)
	f.until, f.repairs = now.Add(f.truce), nil
	return f
}

// pausing reports whether a change must wait because it would restore the same state of a policy again.
func (f *Fights) pausing(c change) (truce, bool) {
	f.mu.Lock()
	defer f.mu.Unlock()
	known := f.policies[c.policy]
	if known == nil || known.fingerprint != c.fingerprint() {
		return truce{}, false
	}
	rest := known.until.Sub(f.clock.Now())
	return truce{policy: c.policy, rest: rest, whole: known.truce}, rest > 0
}

// sweep drops old fights from time to time. The caller must have locked f.mu.
func (f *Fights) sweep(now time.Time) {
	if now.Sub(f.swept) < fightAge {
		return
	}
	f.swept = now
	for policy, known := range f.policies {
		if now.Sub(known.last) >= fightAge {
			delete(f.policies, policy)
		}
	}
}

// hold separates the changes that must wait for the end of a truce.
func (f *Fights) hold(changes []change) (rest []change, truces []truce) {
	for _, each := range changes {
		if t, held := f.pausing(each); held {
			truces = append(truces, t)
		} else {
			rest = append(rest, each)
		}
	}
	return rest, truces
}
