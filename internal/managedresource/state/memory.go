package state

import (
	"slices"
	"sync"
	"time"

	"k8s.io/apimachinery/pkg/types"

	resourcesv1alpha1 "github.com/espalier-dev/espalier/api/resources/v1alpha1"
	"github.com/espalier-dev/espalier/internal/apply/inventory"
	"github.com/espalier-dev/espalier/internal/apply/observe"
)

// Memory contains the state of all sets, and, for each object, the sets that must be reconciled when the object changes. After a restart it
// is empty, which costs one list of the objects of each kind in the target and one read of each Secret that a set references.
type Memory struct {
	mu          sync.Mutex
	sets        map[types.NamespacedName]*Set
	subscribers map[inventory.Key][]types.NamespacedName
	keys        map[types.NamespacedName][]inventory.Key
	// dirty contains, by set, the objects that must be compared with their manifests although they have not changed, because an autoscaler of
	// them was created, changed or deleted.
	dirty map[types.NamespacedName]map[inventory.Key]struct{}
	// concluded contains the sets whose current content this process has applied.
	concluded map[types.NamespacedName]struct{}
	// recreations contains, by set, the objects that another client deleted, until their deletion is reported in the condition of health.
	recreations map[types.NamespacedName][]recreation
}

// recreation is an object that was deleted and that the controller creates again, and the time of its creation.
type recreation struct {
	ref resourcesv1alpha1.ObjectReference
	at  time.Time
	// unconfirmed is true until the controller has created the object. Only the creation proves that the object was deleted. Until then, the
	// object may still exist, and may only have lost the managed-by label.
	unconfirmed bool
}

// recreationAge is how long after the creation a recreation may still be reported.
const recreationAge = time.Minute

// NewMemory returns an empty Memory.
func NewMemory() *Memory {
	return &Memory{
		sets: map[types.NamespacedName]*Set{}, subscribers: map[inventory.Key][]types.NamespacedName{},
		keys: map[types.NamespacedName][]inventory.Key{}, dirty: map[types.NamespacedName]map[inventory.Key]struct{}{},
		concluded: map[types.NamespacedName]struct{}{}, recreations: map[types.NamespacedName][]recreation{},
	}
}

// Get returns the state of a set. For an unknown set, it adds an empty state.
func (m *Memory) Get(name types.NamespacedName) *Set {
	m.mu.Lock()
	defer m.mu.Unlock()
	known := m.sets[name]
	if known == nil {
		known = newSet()
		m.sets[name] = known
	}
	return known
}

// Forget removes the state of a set.
func (m *Memory) Forget(name types.NamespacedName) {
	m.Subscribe(name, nil)
	m.mu.Lock()
	defer m.mu.Unlock()
	delete(m.sets, name)
	delete(m.dirty, name)
	m.clearConcluded(name)
}

// ForgetContent removes the state of a set except for the version that this process wrote last and EndedUID: a cache that is behind may
// still show the set with the finalizer of this controller.
func (m *Memory) ForgetContent(name types.NamespacedName) {
	m.Subscribe(name, nil)
	m.mu.Lock()
	defer m.mu.Unlock()
	if known := m.sets[name]; known != nil {
		m.sets[name] = newSet()
		m.sets[name].version, m.sets[name].EndedUID = known.version, known.EndedUID
	}
	delete(m.dirty, name)
	m.clearConcluded(name)
}

// MarkConcluded records that the current content of a set is applied, and reports whether that was not recorded before.
func (m *Memory) MarkConcluded(name types.NamespacedName) bool {
	m.mu.Lock()
	defer m.mu.Unlock()
	_, known := m.concluded[name]
	m.concluded[name] = struct{}{}
	return !known
}

// MarkInProgress records that the current content of a set is not applied yet.
func (m *Memory) MarkInProgress(name types.NamespacedName) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.clearConcluded(name)
}

// clearConcluded is like MarkInProgress; the caller has locked mu.
func (m *Memory) clearConcluded(name types.NamespacedName) {
	delete(m.concluded, name)
	delete(m.recreations, name)
}

// AddRecreation records that an object seems to be deleted and that the controller is about to create it. The recreation is unconfirmed
// until ConfirmRecreation is called. Recreations that were not reported in time are removed.
func (m *Memory) AddRecreation(name types.NamespacedName, ref resourcesv1alpha1.ObjectReference, now time.Time) {
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

// ConfirmRecreation records that an object was really deleted, and exists again.
func (m *Memory) ConfirmRecreation(name types.NamespacedName, ref resourcesv1alpha1.ObjectReference) {
	m.mu.Lock()
	defer m.mu.Unlock()
	key := inventory.RefKey(ref)
	for i, each := range m.recreations[name] {
		if inventory.RefKey(each.ref) == key {
			m.recreations[name][i].unconfirmed = false
		}
	}
}

// Reported removes the recreations of objects: they were reported, or the objects were not created.
func (m *Memory) Reported(name types.NamespacedName, refs []resourcesv1alpha1.ObjectReference) {
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

// recentRecreations removes the recreations that are too old to be reported, and returns the others. The caller has locked mu.
func (m *Memory) recentRecreations(name types.NamespacedName, now time.Time) []recreation {
	known := slices.DeleteFunc(m.recreations[name], func(each recreation) bool { return now.Sub(each.at) > recreationAge })
	m.recreations[name] = known
	if len(known) == 0 {
		delete(m.recreations, name)
	}
	return known
}

// Contains reports whether the Memory contains any state of a set.
func (m *Memory) Contains(name types.NamespacedName) bool {
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.sets[name] != nil
}

// Subscribe replaces the objects of which each change must cause a reconciliation of the set.
func (m *Memory) Subscribe(name types.NamespacedName, keys []inventory.Key) {
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

// SubscribersOf lists the sets that must be reconciled after a change of an object.
func (m *Memory) SubscribersOf(key inventory.Key) []types.NamespacedName {
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.subscribers[key]
}

// MarkDirty marks an object as dirty in every set that subscribes to it, and lists those sets.
func (m *Memory) MarkDirty(key inventory.Key) []types.NamespacedName {
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

// TakeDirty returns the dirty objects of a set and forgets them. The caller must set Knowledge.Due of these objects.
func (m *Memory) TakeDirty(name types.NamespacedName) map[inventory.Key]struct{} {
	m.mu.Lock()
	defer m.mu.Unlock()
	taken := m.dirty[name]
	delete(m.dirty, name)
	return taken
}

// Version returns the resourceVersion of the last write of this process to a set, "" if there was none.
func (m *Memory) Version(name types.NamespacedName) string {
	version, _ := m.Concluded(name)
	return version
}

// Ended reports whether the API server has deleted a set, although a cache still shows it.
func (m *Memory) Ended(mr *resourcesv1alpha1.ManagedResource) bool {
	m.mu.Lock()
	defer m.mu.Unlock()
	known := m.sets[types.NamespacedName{Namespace: mr.Namespace, Name: mr.Name}]
	return known != nil && known.EndedUID != "" && known.EndedUID == mr.UID
}

// RecordWrite records a write of the controller to a set.
func (m *Memory) RecordWrite(mr *resourcesv1alpha1.ManagedResource) {
	name := types.NamespacedName{Namespace: mr.Namespace, Name: mr.Name}
	m.Get(name)
	m.Wrote(name, mr.ResourceVersion)
}

// Wrote records the version of a set after a write, if the Memory contains a state of that set and the version is not older than the
// recorded one. Two controllers of the process write to a set. After one of them has released the set, the other may still write to it.
func (m *Memory) Wrote(name types.NamespacedName, version string) {
	m.mu.Lock()
	defer m.mu.Unlock()
	if known := m.sets[name]; known != nil && !observe.Older(version, known.version) {
		known.version = version
	}
}

// InSync returns the state of a set if the last pass found the set in sync and its current content is applied. It returns nil otherwise.
// It also returns nil if every object must be read, or if an event has made an object of the set dirty since the last pass.
func (m *Memory) InSync(name types.NamespacedName) *Set {
	m.mu.Lock()
	defer m.mu.Unlock()
	known := m.sets[name]
	_, concluded := m.concluded[name]
	if known == nil || known.InSyncVersion == "" || known.AuditOwed || !concluded || len(m.dirty[name]) > 0 {
		return nil
	}
	return known
}

// Concluded reports whether the current content of a set is applied and its objects are watched. It also returns the resourceVersion of
// the last write of this process to the set; "" if there was none.
func (m *Memory) Concluded(set types.NamespacedName) (resourceVersion string, ok bool) {
	m.mu.Lock()
	defer m.mu.Unlock()
	_, ok = m.concluded[set]
	if known := m.sets[set]; known != nil {
		resourceVersion = known.version
	}
	return resourceVersion, ok
}

// Recreated lists the objects of a set that another client deleted recently and that the controller created again, without the objects
// that were reported already. unconfirmed is true if the controller is about to create a further object again. It may turn out that this
// object was never deleted.
func (m *Memory) Recreated(set types.NamespacedName, now time.Time) (refs []resourcesv1alpha1.ObjectReference, unconfirmed bool) {
	m.mu.Lock()
	defer m.mu.Unlock()
	for _, each := range m.recentRecreations(set, now) {
		if each.unconfirmed {
			unconfirmed = true
			continue
		}
		refs = append(refs, each.ref)
	}
	return refs, unconfirmed
}
