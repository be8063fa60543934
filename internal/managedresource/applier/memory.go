package applier

import (
	"slices"
	"sync"
	"time"

	"k8s.io/apimachinery/pkg/types"

	resourcesv1alpha1 "github.com/espalier-dev/espalier/api/resources/v1alpha1"
	"github.com/espalier-dev/espalier/internal/apply/inventory"
	"github.com/espalier-dev/espalier/internal/apply/observe"
	"github.com/espalier-dev/espalier/internal/managedresource/desired"
	"github.com/espalier-dev/espalier/internal/managedresource/engine"
	"github.com/espalier-dev/espalier/internal/managedresource/prune"
)

// item is a desired object with what the controller knows about the live one.
type item struct {
	*desired.Item
	known engine.Knowledge
}

// set is what the controller keeps of one ManagedResource. Only the worker that processes the set accesses it.
type set struct {
	// content is what the set wants, items are its items with what is known about them. Loaded is false if content must be read again.
	content *desired.Content
	items   []*item
	loaded  bool
	// references are the objects to list in the status; nil after they were written there.
	references []resourcesv1alpha1.ObjectReference
	// reported is the digest of status.resources as last written.
	reported uint64
	// announced identifies the content whose references were written to the status before the first of its objects was written. The next
	// write of the status replaces the health of former content.
	announced string
	// outdated is true if the status shows the health of other content than that which is being applied.
	outdated bool
	// initialStatusTime is when the status was last written before this process read the set, by the clock of the API server. It is nil
	// until the set is read.
	initialStatusTime *time.Time
	// settled is true if the status describes exactly the loaded content.
	settled bool
	// inSyncVersion is the version of the set that the last pass found in sync; "" if a pass must compare every object.
	inSyncVersion string
	// watched is true if watches covered every object in the last pass.
	watched bool
	// kstatus is true if objects of kinds without a health rule are watched with their full content.
	kstatus bool
	// version is the resourceVersion of the last write of this process to the set: an older cached copy must not be used.
	version string
	// endedUID is the UID of the set if the API server deleted the set when the controller removed its finalizer. A cache may still show
	// the set for some time.
	endedUID   types.UID
	nextAudit  time.Time
	nextUpdate time.Time
	// auditOwed is true if every object must be read, until each object is marked as due.
	auditOwed bool
	// neverWritten are objects that have left the set and that were never written: there is nothing to delete. Progress is that of the
	// present deletion, nil if there is none.
	neverWritten map[inventory.Key]struct{}
	progress     *prune.Progress
	// lastFault is the fault that the last Event reported.
	lastFault string
	// lastPlanFault is the last fault of a plan that an Event reported, nextPlan the earliest time for the next plan, and planFailures the
	// number of consecutive plans that could not be published.
	lastPlanFault string
	nextPlan      time.Time
	planFailures  int
}

// newSet returns the state of a set that was not read yet.
func newSet() *set { return &set{content: &desired.Content{}} }

// memory contains the state of all sets, and which sets must be reconciled after a change of an object. After a restart it is empty,
// which costs one list per kind and one read per Secret.
type memory struct {
	mu          sync.Mutex
	sets        map[types.NamespacedName]*set
	subscribers map[inventory.Key][]types.NamespacedName
	keys        map[types.NamespacedName][]inventory.Key
	// dirty objects must be compared although they have not changed: an autoscaler was created, changed or deleted.
	dirty map[types.NamespacedName]map[inventory.Key]struct{}
	// concluded sets were applied by this process as they are now, and their watches run.
	concluded map[types.NamespacedName]struct{}
	// recreations are the objects that other clients deleted, until that is reported.
	recreations map[types.NamespacedName][]recreation
}

// recreation is an object that was deleted and that the controller creates again, with the time of that.
type recreation struct {
	ref resourcesv1alpha1.ObjectReference
	at  time.Time
	// unconfirmed is true until the object is created. Only that shows that the object was deleted: it may only have lost the label that
	// the controller watches.
	unconfirmed bool
}

// recreationAge is how long a recreation may still be reported.
const recreationAge = time.Minute

func newMemory() *memory {
	return &memory{
		sets: map[types.NamespacedName]*set{}, subscribers: map[inventory.Key][]types.NamespacedName{},
		keys: map[types.NamespacedName][]inventory.Key{}, dirty: map[types.NamespacedName]map[inventory.Key]struct{}{},
		concluded: map[types.NamespacedName]struct{}{}, recreations: map[types.NamespacedName][]recreation{},
	}
}

// get returns the state of a set. That of an unknown set is empty.
func (m *memory) get(name types.NamespacedName) *set {
	m.mu.Lock()
	defer m.mu.Unlock()
	known := m.sets[name]
	if known == nil {
		known = newSet()
		m.sets[name] = known
	}
	return known
}

func (m *memory) forget(name types.NamespacedName) {
	m.subscribe(name, nil)
	m.mu.Lock()
	defer m.mu.Unlock()
	delete(m.sets, name)
	delete(m.dirty, name)
	m.clearConcluded(name)
}

// forgetContent removes the state of a set except for the version that this process wrote last: a cache that is behind may still show
// the set with our finalizer.
func (m *memory) forgetContent(name types.NamespacedName) {
	m.subscribe(name, nil)
	m.mu.Lock()
	defer m.mu.Unlock()
	if known := m.sets[name]; known != nil {
		m.sets[name] = newSet()
		m.sets[name].version, m.sets[name].endedUID = known.version, known.endedUID
	}
	delete(m.dirty, name)
	m.clearConcluded(name)
}

// markConcluded records that a set is applied as it is now, and reports whether that was not recorded before.
func (m *memory) markConcluded(name types.NamespacedName) bool {
	m.mu.Lock()
	defer m.mu.Unlock()
	_, known := m.concluded[name]
	m.concluded[name] = struct{}{}
	return !known
}

// isConcluded reports whether markConcluded was called since the last markInProgress.
func (m *memory) isConcluded(name types.NamespacedName) bool {
	m.mu.Lock()
	defer m.mu.Unlock()
	_, known := m.concluded[name]
	return known
}

// markInProgress records that a set is not applied as it is now.
func (m *memory) markInProgress(name types.NamespacedName) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.clearConcluded(name)
}

// clearConcluded is markInProgress for a caller that holds the lock.
func (m *memory) clearConcluded(name types.NamespacedName) {
	delete(m.concluded, name)
	delete(m.recreations, name)
}

// addRecreation records that an object seems to be deleted and that the controller is about to create it. The recreation is unconfirmed
// until confirmRecreation is called. Recreations that were not reported in time are removed.
func (m *memory) addRecreation(name types.NamespacedName, ref resourcesv1alpha1.ObjectReference, now time.Time) {
	m.mu.Lock()
	defer m.mu.Unlock()
	known := m.recentRecreations(name, now)
	key := inventory.RefKey(ref)
	if at := slices.IndexFunc(known, func(each recreation) bool { return inventory.RefKey(each.ref) == key }); at >= 0 {
		known[at].at, known[at].unconfirmed = now, true
		return
	}
	m.recreations[name] = append(known, recreation{ref, now, true})
}

// confirmRecreation records that an object was really deleted, and exists again.
func (m *memory) confirmRecreation(name types.NamespacedName, ref resourcesv1alpha1.ObjectReference) {
	m.mu.Lock()
	defer m.mu.Unlock()
	key := inventory.RefKey(ref)
	for i, each := range m.recreations[name] {
		if inventory.RefKey(each.ref) == key {
			m.recreations[name][i].unconfirmed = false
		}
	}
}

// dropRecreations removes the recreations of objects.
func (m *memory) dropRecreations(name types.NamespacedName, refs []resourcesv1alpha1.ObjectReference) {
	m.mu.Lock()
	defer m.mu.Unlock()
	rest := slices.DeleteFunc(m.recreations[name], func(each recreation) bool {
		return slices.ContainsFunc(refs, func(ref resourcesv1alpha1.ObjectReference) bool {
			return inventory.RefKey(ref) == inventory.RefKey(each.ref)
		})
	})
	m.recreations[name] = rest
	if len(rest) == 0 {
		delete(m.recreations, name)
	}
}

// recentRecreations removes the recreations that are too old to be reported, and returns the others. The caller holds the lock.
func (m *memory) recentRecreations(name types.NamespacedName, now time.Time) []recreation {
	known := slices.DeleteFunc(m.recreations[name], func(each recreation) bool { return now.Sub(each.at) > recreationAge })
	m.recreations[name] = known
	if len(known) == 0 {
		delete(m.recreations, name)
	}
	return known
}

// contains reports whether there is any state of a set.
func (m *memory) contains(name types.NamespacedName) bool {
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.sets[name] != nil
}

// subscribe replaces the objects after whose changes a set must be reconciled.
func (m *memory) subscribe(name types.NamespacedName, keys []inventory.Key) {
	m.mu.Lock()
	defer m.mu.Unlock()
	for _, key := range m.keys[name] {
		rest := slices.DeleteFunc(slices.Clone(m.subscribers[key]), func(other types.NamespacedName) bool { return other == name })
		if len(rest) == 0 {
			delete(m.subscribers, key)
			continue
		}
		m.subscribers[key] = rest
	}
	alone := []types.NamespacedName{name} // shared by the objects without another subscriber
	for _, key := range keys {
		if len(m.subscribers[key]) == 0 {
			m.subscribers[key] = alone
			continue
		}
		if !slices.Contains(m.subscribers[key], name) {
			m.subscribers[key] = append(slices.Clip(m.subscribers[key]), name)
		}
	}
	m.keys[name] = keys
	if len(keys) == 0 {
		delete(m.keys, name)
	}
}

// subscribersOf lists the sets that must be reconciled after a change of an object.
func (m *memory) subscribersOf(key inventory.Key) []types.NamespacedName {
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.subscribers[key]
}

// markDirty marks an object as dirty in every set that subscribes to it, and lists those sets.
func (m *memory) markDirty(key inventory.Key) []types.NamespacedName {
	m.mu.Lock()
	defer m.mu.Unlock()
	for _, name := range m.subscribers[key] {
		if m.dirty[name] == nil {
			m.dirty[name] = map[inventory.Key]struct{}{}
		}
		m.dirty[name][key] = struct{}{}
	}
	return m.subscribers[key]
}

// takeDirty removes the marks of markDirty and returns them. The caller must mark the objects as due.
func (m *memory) takeDirty(name types.NamespacedName) map[inventory.Key]struct{} {
	m.mu.Lock()
	defer m.mu.Unlock()
	taken := m.dirty[name]
	delete(m.dirty, name)
	return taken
}

// version returns the resourceVersion of the last write of this process to a set, "" if there was none.
func (m *memory) version(name types.NamespacedName) string {
	m.mu.Lock()
	defer m.mu.Unlock()
	if known := m.sets[name]; known != nil {
		return known.version
	}
	return ""
}

// ended reports whether a set no longer exists, although a cache may still show it.
func (m *memory) ended(mr *resourcesv1alpha1.ManagedResource) bool {
	m.mu.Lock()
	defer m.mu.Unlock()
	known := m.sets[types.NamespacedName{Namespace: mr.Namespace, Name: mr.Name}]
	return known != nil && known.endedUID != "" && known.endedUID == mr.UID
}

// recordWrite records a write of the controller to a set.
func (m *memory) recordWrite(mr *resourcesv1alpha1.ManagedResource) {
	name := types.NamespacedName{Namespace: mr.Namespace, Name: mr.Name}
	m.get(name)
	m.recordVersion(name, mr.ResourceVersion)
}

// recordVersion records the version of a set after a write, if there is any state of that set. Two controllers of the process write to
// it, and one may still write when the other has released the set.
func (m *memory) recordVersion(name types.NamespacedName, version string) {
	m.mu.Lock()
	defer m.mu.Unlock()
	if known := m.sets[name]; known != nil && !observe.Older(version, known.version) {
		known.version = version
	}
}
