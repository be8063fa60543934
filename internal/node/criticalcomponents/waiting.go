package criticalcomponents

import (
	"sync"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/resourceversion"
)

// maxMistakes bounds what is remembered of mistakes that were told of; beyond it, all is forgotten and told again.
const maxMistakes = 10_000

// waiting remembers the Nodes that have the taint, for Events and metrics; no decision depends on it. After a restart,
// Events are told once more, and Nodes that got the taint again count from their creation. Safe for concurrent use.
type waiting struct {
	metrics *Metrics
	// pause is the least time between two Events about one Node.
	pause time.Duration

	mu       sync.Mutex
	nodes    map[string]*entry
	mistakes map[mistake]bool
}

type mistake struct {
	uid  types.UID
	what string
}

// entry is about one Node.
type entry struct {
	uid types.UID
	// since is when it got its taint.
	since time.Time
	cause cause
	// removedAt is the version of the Node that the removal of the taint made; as long as the cache has an earlier one,
	// there is nothing to be done.
	removedAt string
	toldAt    time.Time
}

func newWaiting(metrics *Metrics, pause time.Duration) *waiting {
	return &waiting{metrics: metrics, pause: pause, nodes: map[string]*entry{}, mistakes: map[mistake]bool{}}
}

// of returns the entry of a Node. The caller holds the lock.
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

// forget is for Nodes that are gone or have no taint.
func (w *waiting) forget(name string) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.drop(name)
}

// taintedAgain notes that a Node that had no taint has got it.
func (w *waiting) taintedAgain(node *corev1.Node, at time.Time) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.drop(node.Name)
	w.of(node).since = at
}

// held notes why a Node waits, and returns why it did before and whether an Event is due: the first at once, the next not
// before the pause is over.
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
	if why != failed || before == failed { // one failure is no news
		e.toldAt, tell = now, true
	}
	return before, tell
}

// removed notes that the taint was removed, which made that version of the Node.
func (w *waiting) removed(node *corev1.Node, version string, now time.Time) {
	w.mu.Lock()
	defer w.mu.Unlock()
	e := w.of(node)
	w.metrics.moved(e.cause, "")
	e.cause, e.removedAt = "", version
	w.metrics.taintRemoved(now.Sub(e.since))
}

// isRemoved tells whether this version of the Node is from before the removal of its taint.
func (w *waiting) isRemoved(node *corev1.Node) bool {
	w.mu.Lock()
	defer w.mu.Unlock()
	e := w.nodes[node.Name]
	if e == nil || e.uid != node.UID || e.removedAt == "" {
		return false
	}
	order, err := resourceversion.CompareResourceVersion(node.ResourceVersion, e.removedAt)
	return err == nil && order < 0 // what cannot be compared is tried, and the patch fails if there is nothing to remove
}

// toldBefore notes a mistake of an object, and tells whether that had been done before.
func (w *waiting) toldBefore(uid types.UID, what string) bool {
	w.mu.Lock()
	defer w.mu.Unlock()
	m := mistake{uid, bounded(what, maxFault)}
	if w.mistakes[m] {
		return true
	}
	if len(w.mistakes) >= maxMistakes {
		clear(w.mistakes)
	}
	w.mistakes[m] = true
	return false
}
