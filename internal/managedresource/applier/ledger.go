package applier

import (
	"time"

	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"

	resourcesv1alpha1 "github.com/espalier-dev/espalier/api/resources/v1alpha1"
	"github.com/espalier-dev/espalier/internal/apply/inventory"
)

// Ledger lets other controllers of the process know what this one knows of sets. All its methods may be called
// concurrently.
type Ledger struct {
	memory *memory
	class  Class
}

// Ledger returns what the controller that uses these Changes knows.
func (c *Changes) Ledger(class Class) *Ledger { return &Ledger{memory: c.memory, class: class} }

// Users lists the sets that contain an object.
func (c *Changes) Users(kind schema.GroupKind, namespace, name string) []types.NamespacedName {
	return c.memory.users(inventory.KeyOf(kind.Group, kind.Kind, namespace, name))
}

// Concluded tells whether a set's objects are as the set wants them and observed, and at which resourceVersion the set
// was written last, "" if it never was.
func (l *Ledger) Concluded(set types.NamespacedName) (resourceVersion string, ok bool) {
	l.memory.mu.Lock()
	defer l.memory.mu.Unlock()
	_, ok = l.memory.concluded[set]
	if known := l.memory.sets[set]; known != nil {
		resourceVersion = known.version
	}
	return resourceVersion, ok
}

// Wrote tells that another controller has written to a set.
func (l *Ledger) Wrote(set types.NamespacedName, resourceVersion string) {
	l.memory.advance(set, resourceVersion)
}

// Recreated lists the objects of a set that had been deleted of late and are there again, as far as that was not
// reported. Open tells that one more is being made again right now, and may turn out never to have been deleted.
func (l *Ledger) Recreated(set types.NamespacedName, now time.Time) (refs []resourcesv1alpha1.ObjectReference, open bool) {
	l.memory.mu.Lock()
	defer l.memory.mu.Unlock()
	for _, each := range l.memory.recent(set, now) {
		if each.open {
			open = true
			continue
		}
		refs = append(refs, each.ref)
	}
	return refs, open
}

// Reported drops objects from that list.
func (l *Ledger) Reported(set types.NamespacedName, refs []resourcesv1alpha1.ObjectReference) {
	l.memory.reported(set, refs)
}

// Responsible tells whether a set asks for this instance's class.
func (l *Ledger) Responsible(mr *resourcesv1alpha1.ManagedResource) bool {
	return l.class.responsible(mr)
}
