package applier

import (
	"slices"
	"sync"
	"time"

	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"

	resourcesv1alpha1 "github.com/espalier-dev/espalier/api/resources/v1alpha1"
	"github.com/espalier-dev/espalier/internal/apply/fields"
	"github.com/espalier-dev/espalier/internal/apply/inventory"
	"github.com/espalier-dev/espalier/internal/apply/observe"
)

// digest identifies the bytes of a document.
type digest [16]byte

// place is where in a set an object stands.
type place struct {
	secret, dataKey string
	index           int
}

// item is what is remembered of one desired object. The object itself is not kept: it is read again when it is needed.
type item struct {
	key   inventory.Key
	kind  schema.GroupVersionKind
	place place
	// namespace is where the object is observed: none for cluster-scoped kinds, whose keys say "default" all the same.
	namespace string
	raw       digest
	// hash covers the document and every setting of the set that shapes the result.
	hash uint64
	// unlabelled objects (manifest annotation "ignore") are created once and never carry the managed-by label.
	unlabelled bool
	// mapped tells that the target served the kind when the document was read, so that its scope is known.
	mapped bool
	known  knowledge
}

// knowledge is what we know of the live object. It is lost with the process and then regained from the watches.
type knowledge struct {
	// hash and fingerprint are of our last successful look or write; confirmed tells that there was one.
	hash        uint64
	fingerprint uint64
	confirmed   bool
	// mark identifies our last write to the object: it moves when another program writes under our name.
	mark   fields.Mark
	looked time.Time
	// unwritten reports that the object was announced, and that no request which may have written it was sent: each one was
	// rejected by the API server, or an earlier step failed.
	unwritten bool
	// due is the least that must be done with the object although nothing seems to differ: leave, look or write. Only
	// confirm ends it, so that a failure or a pause does not lose what was asked for.
	due action
	// claimant is the set that holds the object in our place, "" if nobody does.
	claimant string
	// fight is nil until the object had to be repaired.
	fight *fight
}

// set is what is remembered of one ManagedResource. Only the worker that processes the set touches it.
type set struct {
	loaded     bool
	generation int64
	versions   []secretVersion
	options    uint64
	items      []*item
	released   []released
	faults     []string
	checksum   string
	// references are the objects to report; nil once reported.
	references []resourcesv1alpha1.ObjectReference
	// reported is the digest of status.resources as last written.
	reported uint64
	// announced is the content whose references are in the status since before its first write. When the status is written next,
	// it does not describe the health of former content any more.
	announced string
	// outdated reports that the status describes the health of other content than that which is being applied.
	outdated bool
	// inherited is when the status was last written before this process knew the set, by the clock of the API server; nil until
	// the set was read.
	inherited *time.Time
	settled   bool
	// rested is the version of the set that the last pass found in sync; "" if a pass has to compare it in full.
	rested string
	// watched tells that watches covered every object when the set was looked at last; they stay as long as it does.
	watched bool
	// kstatus tells that kinds without a health rule are watched whole.
	kstatus bool
	// version is the resourceVersion of our last write to the set: an older cached copy must not be acted upon.
	version string
	// left is the UID of the set if letting go of it has ended it: a cache may still show it for a while.
	left       types.UID
	nextAudit  time.Time
	nextUpdate time.Time
	// auditOwed reports that every object is to be read, until each object is marked as due.
	auditOwed bool
	removal   removal
	// told is the fault that the last Event was about.
	told string
	// planTold is the last fault of a plan that an Event was about, planAgain the earliest time for the next plan, and
	// planFailures how many plans in a row could not be published.
	planTold     string
	planAgain    time.Time
	planFailures int
}

// released is an object that the set no longer manages (mode "Ignore").
type released struct {
	key  inventory.Key
	kind schema.GroupVersionKind
}

type secretVersion struct {
	name            string
	uid             types.UID
	resourceVersion string
	// restores is how often the source had been restored from a backup before the Secret was read.
	restores int
}

// memory holds what is known of all sets, and which sets want to hear of an object. A restart loses it, which costs
// one listing per kind and one read per Secret.
type memory struct {
	mu     sync.Mutex
	sets   map[types.NamespacedName]*set
	wanted map[inventory.Key][]types.NamespacedName
	keys   map[types.NamespacedName][]inventory.Key
	// dirty objects must be looked at although nobody wrote to them: an autoscaler came or went.
	dirty map[types.NamespacedName]map[inventory.Key]struct{}
	// concluded sets were applied by this process as they are now: the watches that they need run.
	concluded map[types.NamespacedName]struct{}
	// recreated are objects that had been deleted by somebody else, until that is reported.
	recreated map[types.NamespacedName][]loss
}

// loss is an object that had been deleted, and when that was last seen.
type loss struct {
	ref resourcesv1alpha1.ObjectReference
	at  time.Time
	// open tells that the object is being made again, which will show whether it had really been deleted: it may only have
	// lost the label that we watch.
	open bool
}

// lossAge is how long the loss of an object that is there again is news.
const lossAge = time.Minute

func newMemory() *memory {
	return &memory{
		sets: map[types.NamespacedName]*set{}, wanted: map[inventory.Key][]types.NamespacedName{},
		keys: map[types.NamespacedName][]inventory.Key{}, dirty: map[types.NamespacedName]map[inventory.Key]struct{}{},
		concluded: map[types.NamespacedName]struct{}{}, recreated: map[types.NamespacedName][]loss{},
	}
}

// of returns what is known of a set; an unknown one starts empty.
func (m *memory) of(name types.NamespacedName) *set {
	m.mu.Lock()
	defer m.mu.Unlock()
	known := m.sets[name]
	if known == nil {
		known = &set{}
		m.sets[name] = known
	}
	return known
}

func (m *memory) forget(name types.NamespacedName) {
	m.want(name, nil)
	m.mu.Lock()
	defer m.mu.Unlock()
	delete(m.sets, name)
	delete(m.dirty, name)
	m.reopen(name)
}

// retire forgets what a set consists of, but not which of its versions we wrote: a lagging cache may still show it as
// ours.
func (m *memory) retire(name types.NamespacedName) {
	m.want(name, nil)
	m.mu.Lock()
	defer m.mu.Unlock()
	if known := m.sets[name]; known != nil {
		m.sets[name] = &set{version: known.version, left: known.left}
	}
	delete(m.dirty, name)
	m.reopen(name)
}

// conclude notes that a set is applied as it is now, and tells whether that is news.
func (m *memory) conclude(name types.NamespacedName) bool {
	m.mu.Lock()
	defer m.mu.Unlock()
	_, known := m.concluded[name]
	m.concluded[name] = struct{}{}
	return !known
}

// isConcluded tells whether conclude was called since the last resume.
func (m *memory) isConcluded(name types.NamespacedName) bool {
	m.mu.Lock()
	defer m.mu.Unlock()
	_, known := m.concluded[name]
	return known
}

// resume notes that work on a set goes on.
func (m *memory) resume(name types.NamespacedName) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.reopen(name)
}

// reopen is resume for a caller that holds the lock.
func (m *memory) reopen(name types.NamespacedName) {
	delete(m.concluded, name)
	delete(m.recreated, name)
}

// lost notes that an object seems to have been deleted and is about to be made again: open until settled or reported.
// What nobody has reported for long is forgotten.
func (m *memory) lost(name types.NamespacedName, ref resourcesv1alpha1.ObjectReference, now time.Time) {
	m.mu.Lock()
	defer m.mu.Unlock()
	known := m.recent(name, now)
	key := inventory.RefKey(ref)
	if at := slices.IndexFunc(known, func(each loss) bool { return inventory.RefKey(each.ref) == key }); at >= 0 {
		known[at].at, known[at].open = now, true
		return
	}
	m.recreated[name] = append(known, loss{ref, now, true})
}

// settled notes that an object had been deleted indeed, and is there again.
func (m *memory) settled(name types.NamespacedName, ref resourcesv1alpha1.ObjectReference) {
	m.mu.Lock()
	defer m.mu.Unlock()
	key := inventory.RefKey(ref)
	for i, each := range m.recreated[name] {
		if inventory.RefKey(each.ref) == key {
			m.recreated[name][i].open = false
		}
	}
}

// reported forgets the losses of objects.
func (m *memory) reported(name types.NamespacedName, refs []resourcesv1alpha1.ObjectReference) {
	m.mu.Lock()
	defer m.mu.Unlock()
	rest := slices.DeleteFunc(m.recreated[name], func(each loss) bool {
		return slices.ContainsFunc(refs, func(ref resourcesv1alpha1.ObjectReference) bool {
			return inventory.RefKey(ref) == inventory.RefKey(each.ref)
		})
	})
	m.recreated[name] = rest
	if len(rest) == 0 {
		delete(m.recreated, name)
	}
}

// recent drops the losses that are news no longer. The caller holds the lock.
func (m *memory) recent(name types.NamespacedName, now time.Time) []loss {
	known := slices.DeleteFunc(m.recreated[name], func(each loss) bool { return now.Sub(each.at) > lossAge })
	m.recreated[name] = known
	if len(known) == 0 {
		delete(m.recreated, name)
	}
	return known
}

// knows tells whether anything is remembered of a set.
func (m *memory) knows(name types.NamespacedName) bool {
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.sets[name] != nil
}

// want replaces the objects that a set hears of.
func (m *memory) want(name types.NamespacedName, keys []inventory.Key) {
	m.mu.Lock()
	defer m.mu.Unlock()
	for _, key := range m.keys[name] {
		rest := slices.DeleteFunc(slices.Clone(m.wanted[key]), func(other types.NamespacedName) bool { return other == name })
		if len(rest) == 0 {
			delete(m.wanted, key)
			continue
		}
		m.wanted[key] = rest
	}
	alone := []types.NamespacedName{name} // is shared by the objects that no other set wants
	for _, key := range keys {
		if len(m.wanted[key]) == 0 {
			m.wanted[key] = alone
			continue
		}
		if !slices.Contains(m.wanted[key], name) {
			m.wanted[key] = append(slices.Clip(m.wanted[key]), name)
		}
	}
	m.keys[name] = keys
	if len(keys) == 0 {
		delete(m.keys, name)
	}
}

// users lists the sets that want to hear of an object.
func (m *memory) users(key inventory.Key) []types.NamespacedName {
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.wanted[key]
}

// soil marks an object as dirty in every set that wants it, and lists those sets.
func (m *memory) soil(key inventory.Key) []types.NamespacedName {
	m.mu.Lock()
	defer m.mu.Unlock()
	for _, name := range m.wanted[key] {
		if m.dirty[name] == nil {
			m.dirty[name] = map[inventory.Key]struct{}{}
		}
		m.dirty[name][key] = struct{}{}
	}
	return m.wanted[key]
}

// clean removes the marks of soil and returns them. The caller must mark the objects as due.
func (m *memory) clean(name types.NamespacedName) map[inventory.Key]struct{} {
	m.mu.Lock()
	defer m.mu.Unlock()
	taken := m.dirty[name]
	delete(m.dirty, name)
	return taken
}

// version returns the resourceVersion of our last write to a set, "" if there was none.
func (m *memory) version(name types.NamespacedName) string {
	m.mu.Lock()
	defer m.mu.Unlock()
	if known := m.sets[name]; known != nil {
		return known.version
	}
	return ""
}

// ended tells whether a set is one that exists no longer, although a cache may still show it.
func (m *memory) ended(mr *resourcesv1alpha1.ManagedResource) bool {
	m.mu.Lock()
	defer m.mu.Unlock()
	known := m.sets[types.NamespacedName{Namespace: mr.Namespace, Name: mr.Name}]
	return known != nil && known.left != "" && known.left == mr.UID
}

// wrote remembers our own write to a set.
func (m *memory) wrote(mr *resourcesv1alpha1.ManagedResource) {
	name := types.NamespacedName{Namespace: mr.Namespace, Name: mr.Name}
	m.of(name)
	m.advance(name, mr.ResourceVersion)
}

// advance remembers the version that a write to a set made, if anything is remembered of that set: two controllers write
// to it, and the one may be late when the other has forgotten it.
func (m *memory) advance(name types.NamespacedName, version string) {
	m.mu.Lock()
	defer m.mu.Unlock()
	if known := m.sets[name]; known != nil && !observe.Older(version, known.version) {
		known.version = version
	}
}
