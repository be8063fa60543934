package observe

import (
	"fmt"
	"maps"
	"sync"
	"time"
	"unique"

	appsv1 "k8s.io/api/apps/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/tools/cache"

	resourcesv1alpha1 "github.com/espalier-dev/espalier/api/resources/v1alpha1"
	"github.com/espalier-dev/espalier/internal/apply/fields"
	"github.com/espalier-dev/espalier/internal/health"
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
	// Verdict is what is wrong with an object that is watched whole; nil if nothing is.
	Verdict *health.Verdict
	// Unjudged reports that the Verdict is not known: only metadata of the object was seen since it was written last.
	Unjudged bool
}

// sighting is a whole object reduced to what the store needs of it.
type sighting struct {
	metav1.PartialObjectMetadata
	verdict *health.Verdict
	rollout *health.Rollout
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

// sameVerdict tells whether two observations agree about the object's health.
func (o Object) sameVerdict(other Object) bool {
	if o.Unjudged || other.Unjudged {
		return o.Unjudged == other.Unjudged
	}
	if o.Verdict == nil || other.Verdict == nil {
		return o.Verdict == other.Verdict
	}
	return *o.Verdict == *other.Verdict
}

// store receives what a reflector sees. Locked by mu; the callbacks are called without the lock.
type store struct {
	// onChange tells that more than status changed, onVerdict that the object fares differently, came or went.
	onChange, onVerdict func(namespace, name string)
	// judge is nil in a store of metadata.
	judge func(object runtime.Object) *health.Verdict
	// pods counts the pods of Deployments; nil in stores of other kinds.
	pods *Pods

	mu      sync.RWMutex
	objects map[types.NamespacedName]Object
	// seen is the version up to which the watch has told us everything.
	seen   string
	synced chan struct{}
	// listed tells that there was a listing.
	listed bool
	// news tells that the first listing brings news: the objects are those of a store before this one, or nobody waits for
	// it any longer.
	news bool
	// onListing is called with every listing once it is in place, before anybody is told.
	onListing func(first bool)
}

func newStore(onChange, onVerdict func(namespace, name string)) *store {
	return &store{onChange: onChange, onVerdict: onVerdict, objects: map[types.NamespacedName]Object{}, synced: make(chan struct{}), onListing: func(bool) {}}
}

// inherit begins with what another store held, so that nothing is missed that changes between that one and this.
func (s *store) inherit(other *store) {
	other.mu.RLock()
	defer other.mu.RUnlock()
	s.objects, s.news = maps.Clone(other.objects), true
}

// giveUp notes that somebody went on without the first listing.
func (s *store) giveUp() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.news = true
}

func keyOf(object metav1.Object) types.NamespacedName {
	return types.NamespacedName{Namespace: unique.Make(object.GetNamespace()).Value(), Name: object.GetName()}
}

// Transformer keeps a listing small while the reflector still collects it.
func (s *store) Transformer() cache.TransformFunc {
	return func(item any) (any, error) {
		if object, ok := item.(*metav1.PartialObjectMetadata); ok {
			object.OwnerReferences = nil
			return object, nil
		}
		return s.reduce(item)
	}
}

// reduce makes of a whole object what the store needs of it.
func (s *store) reduce(item any) (metav1.Object, error) {
	switch object := item.(type) {
	case *sighting:
		return object, nil
	case *metav1.PartialObjectMetadata:
		return object, nil
	}
	whole, isObject := item.(metav1.Object)
	judged, isRuntime := item.(runtime.Object)
	if !isObject || !isRuntime || s.judge == nil {
		return nil, fmt.Errorf("observe object: unexpected type %T", item)
	}
	seen := &sighting{verdict: s.judge(judged)}
	seen.ObjectMeta = metav1.ObjectMeta{
		Namespace: whole.GetNamespace(), Name: whole.GetName(), UID: whole.GetUID(), ResourceVersion: whole.GetResourceVersion(),
		Generation: whole.GetGeneration(), DeletionTimestamp: whole.GetDeletionTimestamp(), Labels: whole.GetLabels(),
		Annotations: whole.GetAnnotations(), Finalizers: whole.GetFinalizers(), ManagedFields: whole.GetManagedFields(),
	}
	if deployment, ok := item.(*appsv1.Deployment); ok {
		if rollout, counted := health.RolloutOf(deployment); counted {
			seen.rollout = &rollout
		}
	}
	return seen, nil
}

// condense is Condense, with the verdict on a whole object.
func condense(object metav1.Object) Object {
	condensed := Condense(object)
	seen, whole := object.(*sighting)
	if condensed.Unjudged = !whole; whole {
		condensed.Verdict = seen.verdict
	}
	return condensed
}

// Add is called by the reflector.
func (s *store) Add(item any) error { return s.Update(item) }

// Update is called by the reflector.
func (s *store) Update(item any) error {
	object, err := s.reduce(item)
	if err != nil {
		return err
	}
	key := keyOf(object)
	s.count(key, object)
	s.record(key, condense(object))
	return nil
}

// count has the pods of a Deployment counted.
func (s *store) count(key types.NamespacedName, object metav1.Object) {
	if s.pods == nil {
		return
	}
	if seen, ok := object.(*sighting); ok && seen.rollout != nil {
		s.pods.track(s, key, *seen.rollout)
		return
	}
	s.pods.forget(s, key)
}

// record keeps a newer observation. An older one than we have is an echo from before our own write.
func (s *store) record(key types.NamespacedName, object Object) {
	s.mu.Lock()
	s.seen = object.ResourceVersion
	known, found := s.objects[key]
	if found && Older(object.ResourceVersion, known.ResourceVersion) {
		s.mu.Unlock()
		return
	}
	s.objects[key] = object
	s.mu.Unlock()
	if !found || !known.same(object) {
		s.onChange(key.Namespace, key.Name)
	}
	if !found || !known.sameVerdict(object) {
		s.onVerdict(key.Namespace, key.Name)
	}
}

// note keeps the result of our own write and tells nobody. A watch that is past that write knows better: the object
// may be gone again.
func (s *store) note(key types.NamespacedName, object Object) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if !Older(s.seen, object.ResourceVersion) {
		return
	}
	s.objects[key] = object
}

// answered condenses the answer to a write of ours: with a verdict, if it is the whole object and the store judges such.
func (s *store) answered(object metav1.Object) Object {
	if reduced, err := s.reduce(object); err == nil {
		object = reduced
	}
	return condense(object)
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
	if found && Older(object.GetResourceVersion(), known.ResourceVersion) {
		found = false // the deletion of an earlier object of that name
	}
	if found {
		delete(s.objects, key)
	}
	s.mu.Unlock()
	if found {
		s.gone(key)
	}
	return nil
}

// gone tells that an object is no longer there.
func (s *store) gone(key types.NamespacedName) {
	if s.pods != nil {
		s.pods.forget(s, key)
	}
	s.onChange(key.Namespace, key.Name)
	s.onVerdict(key.Namespace, key.Name)
}

// Replace is called by the reflector with a complete listing.
func (s *store) Replace(items []any, resourceVersion string) error {
	s.mu.RLock()
	first := !s.listed
	s.mu.RUnlock()
	next := make(map[types.NamespacedName]Object, len(items))
	for _, item := range items {
		object, err := s.reduce(item)
		if err != nil {
			return err
		}
		condensed, key := condense(object), keyOf(object)
		if first {
			condensed.Raw = &metav1.ObjectMeta{Labels: object.GetLabels(), Annotations: object.GetAnnotations(), ManagedFields: object.GetManagedFields()}
		}
		next[key] = condensed
		s.count(key, object)
	}
	news := s.swap(next, resourceVersion)
	s.onListing(first)
	for _, key := range news.gone {
		s.gone(key)
	}
	for _, key := range news.changed {
		s.onChange(key.Namespace, key.Name)
	}
	for _, key := range news.judged {
		s.onVerdict(key.Namespace, key.Name)
	}
	return nil
}

// news is what a listing shows that was not known before.
type news struct{ gone, changed, judged []types.NamespacedName }

// swap puts a listing in place, but keeps what we wrote ourselves after the listing was made. A listing that is older than what
// the watch has told comes from a cluster that was restored from a backup: it counts as a whole. The first listing brings no
// news to those who wait for it.
func (s *store) swap(next map[types.NamespacedName]Object, listed string) news {
	s.mu.Lock()
	defer s.mu.Unlock()
	var found news
	restored := Older(listed, s.seen)
	for key, known := range s.objects {
		object, present := next[key]
		switch {
		case !restored && Older(listed, known.ResourceVersion):
			next[key] = known
			continue
		case !present:
			found.gone = append(found.gone, key)
			continue
		case !known.same(object):
			found.changed = append(found.changed, key)
		}
		if !known.sameVerdict(object) {
			found.judged = append(found.judged, key)
		}
	}
	for key := range next {
		if _, known := s.objects[key]; !known {
			found.changed, found.judged = append(found.changed, key), append(found.judged, key)
		}
	}
	s.objects, s.seen = next, listed
	if s.listed {
		return found
	}
	s.listed = true
	close(s.synced)
	if !s.news {
		return news{}
	}
	return found
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
