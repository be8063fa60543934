package controller

import (
	"fmt"
	"sync"
	"time"

	"k8s.io/apimachinery/pkg/types"
	"k8s.io/utils/clock"
)

const (
	// fightLimit repairs of one policy within fightWindow are a fight with somebody else.
	fightLimit  = 3
	fightWindow = time.Minute
	// A fight is interrupted for shortestTruce, doubled each time up to longestTruce.
	shortestTruce = 10 * time.Second
	longestTruce  = 5 * time.Minute
	// fightAge is how long what is known of a policy is kept after the last event.
	fightAge = 3 * longestTruce
)

// Fights remembers which policies somebody else keeps changing or deleting, so that they are not repaired without end.
// A restart begins anew. Safe for concurrent use.
type Fights struct {
	clock clock.PassiveClock

	mu       sync.Mutex
	policies map[types.NamespacedName]*fight
	swept    time.Time
}

// fight is about one policy.
type fight struct {
	// disturbed says that somebody else has written since we have.
	disturbed bool
	// fingerprint is of what the repairs restore; another wish is no repair.
	fingerprint string
	repairs     []time.Time
	truce       time.Duration
	until       time.Time
	// last is when something has happened.
	last time.Time
}

// truce is a policy that is not repaired for a while.
type truce struct {
	policy types.NamespacedName
	// rest is how long from now, whole how long from its beginning.
	rest, whole time.Duration
}

func (t truce) String() string {
	return fmt.Sprintf("Repairs of NetworkPolicy %s pause for %s, since somebody else changes or deletes it again and again: find out who does, in its managedFields or the audit log, and stop it", t.policy, t.whole)
}

// NewFights returns Fights that go by a clock.
func NewFights(passive clock.PassiveClock) *Fights {
	return &Fights{clock: passive, policies: map[types.NamespacedName]*fight{}, swept: passive.Now()}
}

// disturbed is called when somebody else has written a policy.
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

// wrote is called when we have written a policy. That is a repair if it was disturbed.
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

// pausing tells whether a change must wait because it would make the same of a policy again.
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

// sweep forgets old fights from time to time. It is called with the lock held.
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

// hold takes those changes out that would go on with a fight.
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
