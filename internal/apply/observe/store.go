package observe

import (
	"fmt"
	"sync"
	"time"
	"unique"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/resourceversion"
	"k8s.io/client-go/tools/cache"

	resourcesv1alpha1 "github.com/espalier-dev/espalier/api/resources/v1alpha1"
	"github.com/espalier-dev/espalier/internal/apply/fields"
)

// Object is what is kept of an observed object.
type Object struct {
	UID             types.UID
	ResourceVersion string
	// Fingerprint changes exactly when somebody wrote more than status (package fields).
	Fingerprint uint64
	// Origin is the value of the origin annotation, "" without one.
	Origin string
	// Deleted is when deletion was requested; zero while it was not.
	Deleted time.Time
	// Ours tells whether Espalier or its peer ever wrote the object: then it may be deleted although its origin
	// annotation is lost.
	Ours bool
	// Finalizers tells whether the object has any.
	Finalizers bool
	// KeepObject, GarbageCollectable and FinalizeAfter are the values of the annotations and the label that guard
	// a deletion; "" where absent.
	KeepObject, GarbageCollectable, FinalizeAfter string
	// Raw is the metadata of an object seen in the first listing after start, until Settle: it shows whether the
	// object is still as an earlier process left it. Nil otherwise.
	Raw *metav1.ObjectMeta
}

// Condense reduces an object's metadata to what is kept.
func Condense(object metav1.Object) Object {
	annotations := object.GetAnnotations()
	condensed := Object{
		UID:                object.GetUID(),
		ResourceVersion:    object.GetResourceVersion(),
		Fingerprint:        fields.Fingerprint(object),
		Origin:             unique.Make(annotations[resourcesv1alpha1.OriginAnnotation]).Value(),
		Ours:               fields.WrittenByUs(object.GetManagedFields()),
		Finalizers:         len(object.GetFinalizers()) > 0,
		KeepObject:         annotations[resourcesv1alpha1.KeepObject],
		GarbageCollectable: object.GetLabels()[resourcesv1alpha1.GarbageCollectableReference],
		FinalizeAfter:      annotations[resourcesv1alpha1.FinalizeDeletionAfter],
	}
	if deleted := object.GetDeletionTimestamp(); deleted != nil {
		condensed.Deleted = deleted.Time
	}
	return condensed
}

// same tells whether two observations differ by nothing but status.
func (o Object) same(other Object) bool {
	return o.UID == other.UID && o.Fingerprint == other.Fingerprint && o.Deleted.Equal(other.Deleted) && o.Finalizers == other.Finalizers
}

// newerThan compares resource versions. Where they cannot be compared, what was seen last counts as newer.
func (o Object) newerThan(resourceVersion string) bool {
	order, err := resourceversion.CompareResourceVersion(o.ResourceVersion, resourceVersion)
	return err == nil && order > 0
}

// store receives what a reflector sees. Locked by mu; onChange is called without the lock.
type store struct {
	onChange func(namespace, name string)

	mu      sync.RWMutex
	objects map[types.NamespacedName]Object
	// seen is the version up to which the watch has told us everything.
	seen   string
	synced chan struct{}
	once   sync.Once
}

func newStore(onChange func(namespace, name string)) *store {
	return &store{onChange: onChange, objects: map[types.NamespacedName]Object{}, synced: make(chan struct{})}
}

func keyOf(object metav1.Object) types.NamespacedName {
	return types.NamespacedName{Namespace: unique.Make(object.GetNamespace()).Value(), Name: object.GetName()}
}

// Transformer keeps the metadata of a listing small while the reflector still collects it.
func (s *store) Transformer() cache.TransformFunc {
	return func(item any) (any, error) {
		if object, ok := item.(*metav1.PartialObjectMetadata); ok {
			object.OwnerReferences = nil
		}
		return item, nil
	}
}

// Add is called by the reflector.
func (s *store) Add(item any) error { return s.Update(item) }

// Update is called by the reflector.
func (s *store) Update(item any) error {
	object, ok := item.(metav1.Object)
	if !ok {
		return fmt.Errorf("observe object: unexpected type %T", item)
	}
	s.record(keyOf(object), Condense(object))
	return nil
}

// record keeps a newer observation. An older one than we have is an echo from before our own write.
func (s *store) record(key types.NamespacedName, object Object) {
	s.mu.Lock()
	s.seen = object.ResourceVersion
	known, found := s.objects[key]
	if found && known.newerThan(object.ResourceVersion) {
		s.mu.Unlock()
		return
	}
	s.objects[key] = object
	s.mu.Unlock()
	if !found || !known.same(object) {
		s.onChange(key.Namespace, key.Name)
	}
}

// note keeps the result of our own write and tells nobody. A watch that is past that write knows better: the object
// may be gone again.
func (s *store) note(key types.NamespacedName, object Object) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if object.newerThan(s.seen) {
		s.objects[key] = object
	}
}

// Bookmark is called by the reflector.
func (s *store) Bookmark(resourceVersion string) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.seen = resourceVersion
	return nil
}

// Delete is called by the reflector, also when an object lost the label that we select by.
func (s *store) Delete(item any) error {
	if tombstone, ok := item.(cache.DeletedFinalStateUnknown); ok {
		item = tombstone.Obj
	}
	object, ok := item.(metav1.Object)
	if !ok {
		return fmt.Errorf("observe deletion: unexpected type %T", item)
	}
	key := keyOf(object)
	s.mu.Lock()
	s.seen = object.GetResourceVersion()
	known, found := s.objects[key]
	if found && known.newerThan(object.GetResourceVersion()) {
		found = false // the deletion of an earlier object of that name
	}
	if found {
		delete(s.objects, key)
	}
	s.mu.Unlock()
	if found {
		s.onChange(key.Namespace, key.Name)
	}
	return nil
}

// Replace is called by the reflector with a complete listing.
func (s *store) Replace(items []any, resourceVersion string) error {
	first := false
	s.once.Do(func() { first = true })
	next := make(map[types.NamespacedName]Object, len(items))
	for _, item := range items {
		object, ok := item.(metav1.Object)
		if !ok {
			return fmt.Errorf("observe listing: unexpected type %T", item)
		}
		condensed := Condense(object)
		if first {
			condensed.Raw = &metav1.ObjectMeta{Labels: object.GetLabels(), Annotations: object.GetAnnotations(), ManagedFields: object.GetManagedFields()}
		}
		next[keyOf(object)] = condensed
	}
	changed := s.swap(next, resourceVersion)
	if first {
		close(s.synced)
		return nil
	}
	for _, key := range changed {
		s.onChange(key.Namespace, key.Name)
	}
	return nil
}

// swap puts a listing in place, but keeps what we wrote ourselves after the listing was made, and returns what differs.
func (s *store) swap(next map[types.NamespacedName]Object, listed string) []types.NamespacedName {
	s.mu.Lock()
	defer s.mu.Unlock()
	var changed []types.NamespacedName
	for key, known := range s.objects {
		object, found := next[key]
		switch {
		case known.newerThan(listed):
			next[key] = known
		case !found || !known.same(object):
			changed = append(changed, key)
		}
	}
	for key := range next {
		if _, found := s.objects[key]; !found {
			changed = append(changed, key)
		}
	}
	s.objects = next
	s.seen = listed
	return changed
}

// Resync is called by the reflector; there is nothing to repeat.
func (s *store) Resync() error { return nil }

func (s *store) lookup(key types.NamespacedName) (Object, bool) {
	s.mu.RLock()
	defer s.mu.RUnlock()
	object, found := s.objects[key]
	return object, found
}

func (s *store) settle(key types.NamespacedName) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if object, found := s.objects[key]; found && object.Raw != nil {
		object.Raw = nil
		s.objects[key] = object
	}
}

func (s *store) settleAll() {
	for _, key := range s.keys() {
		s.settle(key)
	}
}

func (s *store) keys() []types.NamespacedName {
	s.mu.RLock()
	defer s.mu.RUnlock()
	keys := make([]types.NamespacedName, 0, len(s.objects))
	for key := range s.objects {
		keys = append(keys, key)
	}
	return keys
}
