// Package quota gives each user a share of somebody's attention, so that who asks for more waits and nobody else does.
package quota

import (
	"sync"
	"time"

	"k8s.io/apimachinery/pkg/types"
	"k8s.io/utils/clock"
)

// Quota tells when it is the turn of something that a user has asked for. It keeps its state in memory, guarded by a
// lock: a restart gives every user a full share. Of users that ask for nothing it keeps nothing. Its exported fields are
// set once, before use; methods may be called concurrently.
type Quota struct {
	// Requests is how many turns a user gets in a Period, and at once after having asked for none that long.
	Requests int
	Period   time.Duration
	// MaxDelay is how long a turn may lie ahead; what would have to wait longer is refused.
	MaxDelay time.Duration
	Clock    clock.PassiveClock

	mu sync.Mutex
	// next is when the next turn of a user would be if there were no bursts.
	next map[string]time.Time
	// turns are those that were given, by name of what was asked for, until Forget.
	turns map[string]turn
	swept time.Time
}

type turn struct {
	// id tells what was asked for from others that have had the same name.
	id      types.UID
	at      time.Time
	refused bool
	asked   bool
}

// Answer tells whose turn it is.
type Answer struct {
	// Wait is how long the turn lies ahead; 0: it is now.
	Wait time.Duration
	// Refused means that there will be no turn. News tells that it is said for the first time.
	Refused, News bool
}

// Ask returns when it is the turn of what has that name and id; of one name, only the latest id is remembered. To ask
// again before Forget does not count again.
func (q *Quota) Ask(name string, id types.UID, user string) Answer {
	q.mu.Lock()
	defer q.mu.Unlock()
	now := q.Clock.Now()
	q.sweep(now)
	given, known := q.turns[name]
	if !known || given.id != id {
		given = q.give(user, now)
		given.id = id
	}
	answer := Answer{Wait: max(0, given.at.Sub(now)), Refused: given.refused, News: given.refused && !given.asked}
	given.asked = true
	if q.turns == nil {
		q.turns = map[string]turn{}
	}
	q.turns[name] = given
	return answer
}

// Forget ends what has that name.
func (q *Quota) Forget(name string) {
	q.mu.Lock()
	defer q.mu.Unlock()
	delete(q.turns, name)
}

// give counts a turn. The caller holds the lock.
func (q *Quota) give(user string, now time.Time) turn {
	if q.next == nil {
		q.next = map[string]time.Time{}
	}
	next := q.next[user]
	if next.Before(now) {
		next = now
	}
	interval := q.Period / time.Duration(q.Requests)
	at := next.Add(-interval * time.Duration(q.Requests-1))
	if at.Before(now) {
		at = now
	}
	if at.Sub(now) > q.MaxDelay {
		return turn{at: now, refused: true}
	}
	q.next[user] = next.Add(interval)
	return turn{at: at}
}

// sweep forgets, once in a period, users that have their full share anyway. The caller holds the lock.
func (q *Quota) sweep(now time.Time) {
	if now.Sub(q.swept) < q.Period {
		return
	}
	q.swept = now
	for user, next := range q.next {
		if !next.After(now) {
			delete(q.next, user)
		}
	}
}
