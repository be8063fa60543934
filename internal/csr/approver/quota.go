package approver

import (
	"sync"
	"time"

	"golang.org/x/time/rate"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/utils/clock"

	"github.com/espalier-dev/espalier/internal/config"
)

// Quota limits how many requests of one user are processed per period, without delaying other users. It keeps its state in memory, guarded
// by a lock: a restart gives every user a full quota. It removes the state of a user after the quota of the user is full again. Its
// exported fields are set once, before use; methods may be called concurrently.
type Quota struct {
	// Limit contains the number of turns of a user in a period, and the longest wait for a turn. A user that has sent no request for a period
	// has all turns at once. A request that would have to wait longer than the longest wait is refused.
	Limit config.EspalierCSRRateLimit
	Clock clock.PassiveClock

	mu sync.Mutex
	// users contains a limiter for each user, except for users whose quota is full.
	users map[string]*rate.Limiter
	// turns contains the turns of requests, and the refusals, by the name of the request. forget removes them.
	turns map[string]turn
	swept time.Time
}

type turn struct {
	// id is the UID of the request. It distinguishes the request from earlier ones of the same name.
	id      types.UID
	at      time.Time
	refused bool
	asked   bool
}

// answer is the result of ask.
type answer struct {
	// wait is the time until the turn of the request; 0 means now.
	wait time.Duration
	// refused is true if the request gets no turn. news is true if, in addition, no earlier answer about this request has said so.
	refused, news bool
}

// ask returns when it is the turn of the request with this name and id, or that the request gets no turn. For each name, only the latest
// id is remembered. A second call of ask for the same request, before forget, uses up no further turn.
func (q *Quota) ask(name string, id types.UID, user string) answer {
	q.mu.Lock()
	defer q.mu.Unlock()
	now := q.Clock.Now()
	q.sweep(now)
	given, known := q.turns[name]
	if !known || given.id != id {
		given = q.give(user, now)
		given.id = id
	}
	result := answer{wait: max(0, given.at.Sub(now)), refused: given.refused, news: given.refused && !given.asked}
	given.asked = true
	if q.turns == nil {
		q.turns = map[string]turn{}
	}
	q.turns[name] = given
	return result
}

// forget removes the request with that name. If q is nil, it does nothing.
func (q *Quota) forget(name string) {
	if q == nil {
		return
	}
	q.mu.Lock()
	defer q.mu.Unlock()
	delete(q.turns, name)
}

// give returns the turn for a new request. The caller holds the lock.
func (q *Quota) give(user string, now time.Time) turn {
	limiter := q.users[user]
	if limiter == nil {
		limiter = rate.NewLimiter(rate.Every(q.Limit.Period.Duration/time.Duration(q.Limit.Requests)), q.Limit.Requests)
		if q.users == nil {
			q.users = map[string]*rate.Limiter{}
		}
		q.users[user] = limiter
	}
	reserved := limiter.ReserveN(now, 1)
	delay := reserved.DelayFrom(now)
	if delay > q.Limit.MaxDelay.Duration {
		reserved.CancelAt(now)
		return turn{at: now, refused: true}
	}
	return turn{at: now.Add(delay)}
}

// sweep removes the limiters of users whose quota is full again, once per period. The caller holds the lock.
func (q *Quota) sweep(now time.Time) {
	if now.Sub(q.swept) < q.Limit.Period.Duration {
		return
	}
	q.swept = now
	for user, limiter := range q.users {
		if limiter.TokensAt(now) >= float64(q.Limit.Requests) {
			delete(q.users, user)
		}
	}
}
