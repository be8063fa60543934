package health

import (
	"sync"
	"sync/atomic"
	"time"

	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/utils/clock"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"

	"github.com/espalier-dev/espalier/internal/process"
)

const (
	// patience is how long the controller waits for a watch or a cache that has not shown the last write of this process.
	patience = 5 * time.Second
	// peek is the time between two checks during that wait, if there is no event.
	peek = time.Second
	// writeInterval is the minimum time between two writes of the conditions of a set. Without it, each object that becomes ready would cause
	// a write.
	writeInterval = time.Second
	// messageInterval is the minimum time between a write and a later one that only changes messages: while the objects of a set roll out, the
	// message only says which of them are not ready yet.
	messageInterval = 5 * time.Second
)

// Verdicts notifies the controller that sets must be judged again. It is created before the watches that call it. All its methods may be
// called concurrently; a restart loses its contents, and every set is then judged anyway.
type Verdicts struct {
	clock clock.PassiveClock
	queue atomic.Pointer[process.Queue]
	// users lists the sets that contain an object.
	users func(kind schema.GroupKind, namespace, name string) []types.NamespacedName

	mu   sync.Mutex
	sets map[types.NamespacedName]times
}

// times are the times that are recorded for a set; zero means not recorded.
type times struct {
	// since is the time of the oldest event that the conditions do not reflect yet. waiting is when the wait for a watch began.
	since, waiting time.Time
	// behind is the time of the first check at which the cache did not show the last write of this process to the set.
	behind time.Time
	// written is when the conditions of the set were last written. postponed is when a later write was postponed because it would only have
	// changed messages.
	written, postponed time.Time
}

// NewVerdicts returns Verdicts that no controller uses yet. The function users lists the sets that contain an object.
func NewVerdicts(passive clock.PassiveClock, users func(kind schema.GroupKind, namespace, name string) []types.NamespacedName) *Verdicts {
	return &Verdicts{clock: passive, users: users, sets: map[types.NamespacedName]times{}}
}

// update changes the times of a set, and returns them.
func (v *Verdicts) update(set types.NamespacedName, change func(*times)) times {
	v.mu.Lock()
	defer v.mu.Unlock()
	known := v.sets[set]
	change(&known)
	if v.sets[set] = known; known == (times{}) {
		delete(v.sets, set)
	}
	return known
}

// setIfZero sets start to now, unless it is set already.
func setIfZero(start *time.Time, now time.Time) {
	if start.IsZero() {
		*start = now
	}
}

// Object must be called when an object appears, disappears or changes its health.
func (v *Verdicts) Object(kind schema.GroupKind, namespace, name string) {
	for _, set := range v.users(kind, namespace, name) {
		v.Set(set)
	}
}

// Deployment makes the controller judge the sets that contain a Deployment. It must be called when the number of the Deployment's Pods may
// start or stop to differ from its replicas.
func (v *Verdicts) Deployment(namespace, name string) {
	v.Object(schema.GroupKind{Group: "apps", Kind: "Deployment"}, namespace, name)
}

// Set must be called when a set has to be judged.
func (v *Verdicts) Set(set types.NamespacedName) {
	v.update(set, func(known *times) { setIfZero(&known.since, v.clock.Now()) })
	if queue := v.queue.Load(); queue != nil {
		(*queue).Add(reconcile.Request{NamespacedName: set})
	}
}

// takeReceived returns when the oldest unreported event of a set was received, and removes it.
func (v *Verdicts) takeReceived(set types.NamespacedName) (since time.Time, found bool) {
	v.update(set, func(known *times) { since, known.since = known.since, time.Time{} })
	return since, !since.IsZero()
}

// wait records that a set waits for a watch, and returns the time until the next check.
func (v *Verdicts) wait(set types.NamespacedName, now time.Time) time.Duration {
	v.update(set, func(known *times) { setIfZero(&known.waiting, now) })
	return peek
}

// waitedEnough reports whether a set has waited too long for a watch.
func (v *Verdicts) waitedEnough(set types.NamespacedName, now time.Time) bool {
	began := v.update(set, func(*times) {}).waiting
	return !began.IsZero() && now.Sub(began) > patience
}

// sawAll records that the set waits for no watch.
func (v *Verdicts) sawAll(set types.NamespacedName) {
	v.update(set, func(known *times) { known.waiting = time.Time{} })
}

// cacheBehind records that the cache does not contain the last write to a set yet, and returns the time until the next check. At first,
// this time is catchUp. Once the cache is behind for longer than patience, it is period: the source was probably restored from a backup,
// and the cache will never show the last write. The ManagedResource controller detects the restore.
func (v *Verdicts) cacheBehind(set types.NamespacedName, now time.Time, period time.Duration) time.Duration {
	known := v.update(set, func(known *times) { setIfZero(&known.behind, now) })
	if now.Sub(known.behind) > patience {
		return period
	}
	return catchUp
}

// cacheCurrent records that the cache has the last write to a set.
func (v *Verdicts) cacheCurrent(set types.NamespacedName) {
	v.update(set, func(known *times) { known.behind = time.Time{} })
}

// wrote records that the conditions of a set were written now.
func (v *Verdicts) wrote(set types.NamespacedName, now time.Time) {
	v.update(set, func(known *times) { known.written = now })
}

// pause returns how long to wait before the conditions of a set may be written; 0 if they may be written now. The argument interval is the
// minimum time since the last write. If a write was postponed, at least writeInterval must also have passed since then.
func (v *Verdicts) pause(set types.NamespacedName, now time.Time, interval time.Duration) (wait time.Duration) {
	v.update(set, func(known *times) {
		wait = max(left(known.written, interval, now), left(known.postponed, writeInterval, now))
		if left(known.written, messageInterval, now) == 0 {
			known.written, known.postponed = time.Time{}, time.Time{}
		}
	})
	return wait
}

// left returns how much of an interval is left; 0 if the clock was set back since its begin.
func left(begin time.Time, interval time.Duration, now time.Time) time.Duration {
	if passed := now.Sub(begin); passed >= 0 && passed < interval {
		return interval - passed
	}
	return 0
}

// postpone records that a write was postponed because it would only have changed messages. This delay is intended, so it does not count as
// latency.
func (v *Verdicts) postpone(set types.NamespacedName, now time.Time) {
	v.update(set, func(known *times) { known.postponed, known.since = now, time.Time{} })
}

func (v *Verdicts) forget(set types.NamespacedName) {
	v.update(set, func(known *times) { *known = times{} })
}
