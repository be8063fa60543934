package health

import (
	"sync"
	"sync/atomic"
	"time"

	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/util/workqueue"
	"k8s.io/utils/clock"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"
)

const (
	// patience is how long a watch that is behind our own writes is waited for.
	patience = 5 * time.Second
	// peek is how often it is looked at meanwhile, should no event come.
	peek = time.Second
	// writeInterval is how long after a write the conditions of a set are not written again: objects that become ready one after
	// the other would otherwise cost a write each.
	writeInterval = time.Second
)

// Verdicts carries to the controller that sets have to be judged again. It is made before the watches that call it. All
// its methods may be called concurrently; a restart loses what it holds, and every set is judged anyway.
type Verdicts struct {
	clock clock.PassiveClock
	queue atomic.Pointer[workqueue.TypedRateLimitingInterface[reconcile.Request]]
	// users lists the sets that contain an object.
	users func(kind schema.GroupKind, namespace, name string) []types.NamespacedName

	mu sync.Mutex
	// since is when the oldest event was seen that has not been reported; waiting is when the wait for a watch began.
	since, waiting map[types.NamespacedName]time.Time
	// written is when the conditions of a set were written last.
	written map[types.NamespacedName]time.Time
}

// NewVerdicts returns Verdicts that tell nobody yet. Users lists the sets that contain an object.
func NewVerdicts(passive clock.PassiveClock, users func(kind schema.GroupKind, namespace, name string) []types.NamespacedName) *Verdicts {
	return &Verdicts{
		clock: passive, users: users,
		since: map[types.NamespacedName]time.Time{}, waiting: map[types.NamespacedName]time.Time{}, written: map[types.NamespacedName]time.Time{},
	}
}

// Object is to be called when an object came, went, or fares differently.
func (v *Verdicts) Object(kind schema.GroupKind, namespace, name string) {
	for _, set := range v.users(kind, namespace, name) {
		v.Set(set)
	}
}

// Deployment is to be called when the number of a Deployment's pods may no longer be, or now is, what it asks for.
func (v *Verdicts) Deployment(namespace, name string) {
	v.Object(schema.GroupKind{Group: "apps", Kind: "Deployment"}, namespace, name)
}

// Set is to be called when a set has to be judged.
func (v *Verdicts) Set(set types.NamespacedName) {
	v.mu.Lock()
	if _, known := v.since[set]; !known {
		v.since[set] = v.clock.Now()
	}
	v.mu.Unlock()
	if queue := v.queue.Load(); queue != nil {
		(*queue).Add(reconcile.Request{NamespacedName: set})
	}
}

// told returns when the oldest unreported event of a set was seen, and forgets it.
func (v *Verdicts) told(set types.NamespacedName) (time.Time, bool) {
	v.mu.Lock()
	defer v.mu.Unlock()
	since, known := v.since[set]
	delete(v.since, set)
	return since, known
}

// wait notes that a set waits for a watch, and returns when to look again.
func (v *Verdicts) wait(set types.NamespacedName, now time.Time) time.Duration {
	v.mu.Lock()
	defer v.mu.Unlock()
	if v.waiting[set].IsZero() {
		v.waiting[set] = now
	}
	return peek
}

// waitedEnough tells whether a set has waited for a watch for too long.
func (v *Verdicts) waitedEnough(set types.NamespacedName, now time.Time) bool {
	v.mu.Lock()
	defer v.mu.Unlock()
	began := v.waiting[set]
	return !began.IsZero() && now.Sub(began) > patience
}

// sawAll notes that no watch is waited for.
func (v *Verdicts) sawAll(set types.NamespacedName) {
	v.mu.Lock()
	defer v.mu.Unlock()
	delete(v.waiting, set)
}

// wrote notes that the conditions of a set are written now.
func (v *Verdicts) wrote(set types.NamespacedName, now time.Time) {
	v.mu.Lock()
	defer v.mu.Unlock()
	v.written[set] = now
}

// pause returns how long the conditions of a set are not to be written; 0 if they may be.
func (v *Verdicts) pause(set types.NamespacedName, now time.Time) time.Duration {
	v.mu.Lock()
	defer v.mu.Unlock()
	passed := now.Sub(v.written[set])
	if passed >= 0 && passed < writeInterval { // less than 0: the clock was set back
		return writeInterval - passed
	}
	delete(v.written, set)
	return 0
}

func (v *Verdicts) forget(set types.NamespacedName) {
	v.mu.Lock()
	defer v.mu.Unlock()
	delete(v.since, set)
	delete(v.waiting, set)
	delete(v.written, set)
}
