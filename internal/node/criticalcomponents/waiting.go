package criticalcomponents

import (
	"sync"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/resourceversion"
	"k8s.io/utils/lru"
)

// maxMistakes limits how many reported mistakes are remembered. A further mistake replaces the mistake that was found least recently. If
// that mistake is found again, it is also reported again.
const maxMistakes = 10_000

// waiting remembers the Nodes that have the taint, for Events and metrics, and the Nodes whose taint was just removed. Decisions are
// correct without it. After a restart, Events are created once more, and the waiting time of a Node that got the taint again is counted
// from the Node's creation. It is safe for concurrent use.
type waiting struct {
	metrics *Metrics
	// pause is the minimum time between two Events about one Node.
	pause time.Duration

	mu       sync.Mutex
	nodes    map[string]*entry
	mistakes *lru.Cache // the keys are of type mistake
}

type mistake struct {
	uid  types.UID
	what string
}

// entry contains the facts about one Node.
type entry struct {
	uid types.UID
	// since is when the Node got its taint.
	since time.Time
	cause cause
	// removedAt is the resource version of the Node after the removal of the taint. While the cache has an earlier version, there is
	// nothing to do.
	removedAt string
	toldAt    time.Time
}

func newWaiting(metrics *Metrics, pause time.Duration) *waiting {
	return &waiting{metrics: metrics, pause: pause, nodes: map[string]*entry{}, mistakes: lru.New(maxMistakes)}
}

// of returns the entry of a Node. The caller must have locked w.mu.
func (w *waiting) of(node *corev1.Node) *entry {
	e := w.nodes[node.Name]
	if e == nil || e.uid != node.UID {
		w.drop(node.Name)
		e = &entry{uid: node.UID, since: node.CreationTimestamp.Time}
		w.nodes[node.Name] = e
	}
	return e
}

func (w *waiting) drop(name string) {
	if e := w.nodes[name]; e != nil {
		w.metrics.moved(e.cause, "")
		delete(w.nodes, name)
	}
}

// forget drops a Node that is deleted or does not have the taint.
func (w *waiting) forget(name string) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.drop(name)
}

// taintedAgain records that a Node whose taint was removed has got it again.
func (w *waiting) taintedAgain(node *corev1.Node, at time.Time) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.drop(node.Name)
	w.of(node).since = at
}

// held records the cause why a Node waits. It returns the previous cause, and whether to create an Event. The first Event is created
// immediately, and a further one only after the pause. A failure causes an Event only if the previous cause was a failure, too.
func (w *waiting) held(node *corev1.Node, why cause, now time.Time) (before cause, tell bool) {
	w.mu.Lock()
	defer w.mu.Unlock()
	e := w.of(node)
	before = e.cause
	w.metrics.moved(before, why)
	e.cause = why
	if !e.toldAt.IsZero() && now.Sub(e.toldAt) < w.pause {
		return before, false
	}
	if why != failed || before == failed { // a failure is reported only if it is the second in a row
		e.toldAt, tell = now, true
	}
	return before, tell
}

// removed records that the taint was removed, and the resource version of the Node after it.
func (w *waiting) removed(node *corev1.Node, version string, now time.Time) {
	w.mu.Lock()
	defer w.mu.Unlock()
	e := w.of(node)
	w.metrics.moved(e.cause, "")
	e.cause, e.removedAt = "", version
	w.metrics.taintRemoved(now.Sub(e.since))
}

// isRemoved reports whether this version of the Node is older than the removal of its taint.
func (w *waiting) isRemoved(node *corev1.Node) bool {
	w.mu.Lock()
	defer w.mu.Unlock()
	e := w.nodes[node.Name]
	if e == nil || e.uid != node.UID || e.removedAt == "" {
		return false
	}
	order, err := resourceversion.CompareResourceVersion(node.ResourceVersion, e.removedAt)
	return err == nil && order < 0 // if the versions cannot be compared, the patch is tried, and fails if there is no taint to remove
}

// toldBefore records a mistake in an object, and reports whether it was recorded before.
func (w *waiting) toldBefore(uid types.UID, what string) bool {
	w.mu.Lock() // locked, so that only one caller sees the mistake as new
	defer w.mu.Unlock()
	m := mistake{uid, bounded(what, maxFault)}
	_, told := w.mistakes.Get(m)
	w.mistakes.Add(m, nil)
	return told
}
