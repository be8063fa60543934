package applier

import (
	"time"

	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"

	resourcesv1alpha1 "github.com/espalier-dev/espalier/api/resources/v1alpha1"
	"github.com/espalier-dev/espalier/internal/apply/inventory"
)

// Ledger gives other controllers of the process access to the state of the sets. All its methods may be called concurrently.
type Ledger struct {
	memory *memory
	class  Class
}

// Ledger returns the state of the sets of the controller that uses these Changes.
func (c *Changes) Ledger(class Class) *Ledger { return &Ledger{memory: c.memory, class: class} }

// Users lists the sets that contain an object.
func (c *Changes) Users(kind schema.GroupKind, namespace, name string) []types.NamespacedName {
	return c.memory.subscribersOf(inventory.KeyOf(kind.Group, kind.Kind, namespace, name))
}

// Concluded reports whether a set is applied as it is now and its objects are watched. It also returns the resourceVersion of the last
// write to the set, "" if there was none.
func (l *Ledger) Concluded(set types.NamespacedName) (resourceVersion string, ok bool) {
	l.memory.mu.Lock()
	defer l.memory.mu.Unlock()
	_, ok = l.memory.concluded[set]
	if known := l.memory.sets[set]; known != nil {
		resourceVersion = known.version
	}
	return resourceVersion, ok
}

// Wrote records that another controller has written to a set.
func (l *Ledger) Wrote(set types.NamespacedName, resourceVersion string) {
	l.memory.recordVersion(set, resourceVersion)
}

// Recreated lists the objects of a set that another client deleted recently and the controller created again, unless that was reported
// already. Unconfirmed is true if the controller is creating a further object at the moment, which may turn out to exist.
func (l *Ledger) Recreated(set types.NamespacedName, now time.Time) (refs []resourcesv1alpha1.ObjectReference, unconfirmed bool) {
	l.memory.mu.Lock()
	defer l.memory.mu.Unlock()
	for _, each := range l.memory.recentRecreations(set, now) {
		if each.unconfirmed {
			unconfirmed = true
			continue
		}
		refs = append(refs, each.ref)
	}
	return refs, unconfirmed
}

// Reported removes objects from the list that Recreated returns.
func (l *Ledger) Reported(set types.NamespacedName, refs []resourcesv1alpha1.ObjectReference) {
	l.memory.dropRecreations(set, refs)
}

// Responsible reports whether a set is of the class of this instance.
func (l *Ledger) Responsible(mr *resourcesv1alpha1.ManagedResource) bool {
	return l.class.responsible(mr)
}
