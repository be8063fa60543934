package observe

import (
	"fmt"
	"maps"
	"slices"
	"sync"
	"time"
	"unique"

	appsv1 "k8s.io/api/apps/v1"
	batchv1 "k8s.io/api/batch/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/controller-runtime/pkg/client"

	resourcesv1alpha1 "github.com/espalier-dev/espalier/api/resources/v1alpha1"
	"github.com/espalier-dev/espalier/internal/apply/fields"
	"github.com/espalier-dev/espalier/internal/health"
)

// Object is the stored state of an observed object.
type Object struct {
	UID             types.UID
	ResourceVersion string
	// Fingerprint changes if and only if a client wrote more than the status of the object (see package fields).
	Fingerprint uint64
	// Origin is the value of the origin annotation, "" if the object has none.
	Origin string
	// Deleted is the deletion timestamp; zero if there is none.
	Deleted time.Time
	// WrittenByUs is true if managedFields have an entry of Espalier or of its peer, Gardener's resource manager. Then Espalier may delete the
	// object although its origin annotation is missing.
	WrittenByUs bool
	// Finalizers is true if the object has any finalizer.
	Finalizers bool
	// KeepObject, GarbageCollectable and FinalizeAfter are the values of the annotations and the label that restrict a deletion; "" if absent.
	KeepObject, GarbageCollectable, FinalizeAfter string
	// FirstMetadata contains the labels, annotations and managedFields of an object from the first listing of a watch. They show whether the
	// object is unchanged since an earlier process wrote it. DropFirstMetadata, or firstMetadataTimeout, sets it to nil. It is nil for objects
	// of later events.
	FirstMetadata *metav1.ObjectMeta
	// Verdict says why an object is not healthy; nil if it is healthy. Only a watch of whole objects computes verdicts.
	Verdict *health.Verdict
	// VerdictUnknown is true if Verdict is not valid, because only metadata of this version of the object was observed.
	VerdictUnknown bool
}

// reducedObject contains the fields of a whole object that the store needs.
type reducedObject struct {
	metav1.PartialObjectMetadata
	verdict *health.Verdict
	rollout *health.Rollout
	// finished is true for a finished Job that Kubernetes will delete, because it has ttlSecondsAfterFinished.
	finished bool
}

// Condense returns the stored state of an object from its metadata.
func Condense(object metav1.Object) Object {
	annotations := object.GetAnnotations()
	condensed := Object{
		UID:                object.GetUID(),
		ResourceVersion:    object.GetResourceVersion(),
		Fingerprint:        fields.Fingerprint(object),
		Origin:             unique.Make(annotations[resourcesv1alpha1.OriginAnnotation]).Value(),
		WrittenByUs:        fields.WrittenByUs(object.GetManagedFields()),
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

// differsOnlyInStatus reports whether two states of an object are equal except for status.
func (o Object) differsOnlyInStatus(other Object) bool {
	return o.UID == other.UID && o.Fingerprint == other.Fingerprint && o.Deleted.Equal(other.Deleted) && o.Finalizers == other.Finalizers
}

// hasSameVerdict reports whether two states of an object have the same verdict.
func (o Object) hasSameVerdict(other Object) bool {
	return o.VerdictUnknown == other.VerdictUnknown && ptr.Equal(o.Verdict, other.Verdict)
}

// store receives the objects of one watch. mu guards its fields. It calls the callbacks without that lock.
type store struct {
	// onChange and onVerdict are Options.OnChange and Options.OnVerdict for the kind of the watch.
	onChange, onVerdict func(namespace, name string)
	// verdictOf computes the verdict of a whole object. It is nil in a store of metadata.
	verdictOf func(object runtime.Object) *health.Verdict
	// onJob is called for each Job that is received whole, with the value of reducedObject.finished. It is nil in stores of other kinds.
	onJob func(key types.NamespacedName, resourceVersion string, finished bool)
	// pods counts the pods of Deployments. It is nil in stores of other kinds.
	pods *Pods

	mu      sync.RWMutex
	objects map[types.NamespacedName]Object
	// observedVersion is the resourceVersion of the last event, bookmark or listing of the watch.
	observedVersion string
	first           *firstListing
	// onListing is called after a listing has replaced the objects, before its changes are reported.
	onListing func(first bool)
}

func newStore(onChange, onVerdict func(namespace, name string)) *store {
	return &store{
		onChange: onChange, onVerdict: onVerdict, objects: map[types.NamespacedName]Object{}, first: newFirstListing(),
		onListing: func(bool) {},
	}
}

// copyFrom copies the objects of the store that this one replaces, so that changes between their watches are reported.
func (s *store) copyFrom(other *store) {
	other.mu.RLock()
	defer other.mu.RUnlock()
	s.objects = maps.Clone(other.objects)
	s.first.stopWaiting()
}

func keyOf(object metav1.Object) types.NamespacedName {
	return types.NamespacedName{Namespace: unique.Make(object.GetNamespace()).Value(), Name: object.GetName()}
}

// keep reduces an object to the fields that the store needs, before the reflector stores it.
func (s *store) keep(object client.Object) (metav1.Object, bool) {
	if found, ok := object.(*metav1.PartialObjectMetadata); ok {
		found.OwnerReferences = nil
	}
	reduced, err := s.reduce(object)
	return reduced, err == nil
}

// reduce returns the fields of a whole object that the store needs, and metadata unchanged.
func (s *store) reduce(whole metav1.Object) (metav1.Object, error) {
	if _, isMetadata := whole.(*metav1.PartialObjectMetadata); isMetadata {
		return whole, nil
	}
	judged, isRuntime := whole.(runtime.Object)
	if !isRuntime || s.verdictOf == nil {
		return nil, fmt.Errorf("observe object: unexpected type %T", whole)
	}
	seen := &reducedObject{verdict: s.verdictOf(judged)}
	seen.ObjectMeta = metav1.ObjectMeta{
		Namespace: whole.GetNamespace(), Name: whole.GetName(), UID: whole.GetUID(), ResourceVersion: whole.GetResourceVersion(),
		Generation: whole.GetGeneration(), DeletionTimestamp: whole.GetDeletionTimestamp(), Labels: whole.GetLabels(),
		Annotations: whole.GetAnnotations(), Finalizers: whole.GetFinalizers(), ManagedFields: whole.GetManagedFields(),
	}
	switch typed := whole.(type) {
	case *appsv1.Deployment:
		if rollout, counted := health.RolloutOf(typed); counted {
			seen.rollout = &rollout
		}
	case *batchv1.Job:
		seen.finished = typed.Spec.TTLSecondsAfterFinished != nil && health.IsFinished(typed)
	}
	return seen, nil
}

// condense is Condense with the verdict of a whole object.
func condense(object metav1.Object) Object {
	condensed := Condense(object)
	seen, whole := object.(*reducedObject)
	if condensed.VerdictUnknown = !whole; whole {
		condensed.Verdict = seen.verdict
	}
	return condensed
}

// Set implements reflector.Receiver.
func (s *store) Set(key types.NamespacedName, object metav1.Object) {
	s.countPods(key, object)
	s.noteJob(key, object)
	s.recordEvent(key, condense(object))
}

// countPods starts or stops the count of the pods of a Deployment.
func (s *store) countPods(key types.NamespacedName, object metav1.Object) {
	if s.pods == nil {
		return
	}
	if seen, ok := object.(*reducedObject); ok && seen.rollout != nil {
		s.pods.track(s, key, *seen.rollout)
		return
	}
	s.pods.forget(s, key)
}

// noteJob calls onJob for a Job.
func (s *store) noteJob(key types.NamespacedName, object metav1.Object) {
	if seen, whole := object.(*reducedObject); whole && s.onJob != nil {
		s.onJob(key, object.GetResourceVersion(), seen.finished)
	}
}

// recordEvent stores the state of an object unless it is older than the stored one. An older event is from before the last write of
// Espalier.
func (s *store) recordEvent(key types.NamespacedName, object Object) {
	s.mu.Lock()
	s.observedVersion = object.ResourceVersion
	known, found := s.objects[key]
	if found && Older(object.ResourceVersion, known.ResourceVersion) {
		s.mu.Unlock()
		return
	}
	s.objects[key] = object
	s.mu.Unlock()
	if !found || !known.differsOnlyInStatus(object) {
		s.onChange(key.Namespace, key.Name)
	}
	if !found || !known.hasSameVerdict(object) {
		s.onVerdict(key.Namespace, key.Name)
	}
}

// recordOwnWrite stores the result of a write of Espalier. It ignores the result if the watch has already shown this version or a later
// one: the object may have been deleted since. It calls onChange only if the write replaced the origin annotation, because then the set
// that the old annotation names has lost the object.
func (s *store) recordOwnWrite(key types.NamespacedName, object Object) {
	s.mu.Lock()
	if !Older(s.observedVersion, object.ResourceVersion) {
		s.mu.Unlock()
		return
	}
	known := s.objects[key]
	s.objects[key] = object
	s.mu.Unlock()
	if known.Origin != "" && known.Origin != object.Origin {
		s.onChange(key.Namespace, key.Name)
	}
}

// condenseAnswer condenses the answer to a write of Espalier. The result has a verdict if the answer is the whole object and the store
// computes verdicts.
func (s *store) condenseAnswer(object metav1.Object) Object {
	if reduced, err := s.reduce(object); err == nil {
		object = reduced
	}
	return condense(object)
}

// Bookmark implements reflector.Bookmarked.
func (s *store) Bookmark(resourceVersion string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.observedVersion = resourceVersion
}

// Delete implements reflector.Receiver. It is also called when an object no longer has the label of the selector.
func (s *store) Delete(key types.NamespacedName, resourceVersion string) {
	s.mu.Lock()
	s.observedVersion = resourceVersion
	known, found := s.objects[key]
	if found && Older(resourceVersion, known.ResourceVersion) {
		found = false // the event deletes an earlier object of that name
	}
	if found {
		delete(s.objects, key)
	}
	s.mu.Unlock()
	if found {
		s.reportDeletion(key)
	}
}

// reportDeletion reports that an object no longer exists.
func (s *store) reportDeletion(key types.NamespacedName) {
	if s.pods != nil {
		s.pods.forget(s, key)
	}
	s.onChange(key.Namespace, key.Name)
	s.onVerdict(key.Namespace, key.Name)
}

// Replace implements reflector.Receiver.
func (s *store) Replace(objects map[types.NamespacedName]metav1.Object, resourceVersion string) {
	first := !s.first.isDone()
	next := make(map[types.NamespacedName]Object, len(objects))
	for key, object := range objects {
		condensed := condense(object)
		if first {
			condensed.FirstMetadata = &metav1.ObjectMeta{
				Labels: object.GetLabels(), Annotations: object.GetAnnotations(), ManagedFields: object.GetManagedFields(),
			}
		}
		next[key] = condensed
		s.countPods(key, object)
		s.noteJob(key, object)
	}
	news := s.replaceObjects(next, resourceVersion)
	s.onListing(first)
	for _, key := range news.deleted {
		s.reportDeletion(key)
	}
	for _, key := range news.changed {
		s.onChange(key.Namespace, key.Name)
	}
	for _, key := range news.judged {
		s.onVerdict(key.Namespace, key.Name)
	}
}

// listingChanges contains the differences between the stored objects and a listing. deleted are the stored objects that the listing lacks.
// changed are the objects that differ in more than status, and judged the objects with another verdict; both also contain the objects that
// only the listing has.
type listingChanges struct{ deleted, changed, judged []types.NamespacedName }

// replaceObjects replaces the stored objects by a listing, but keeps the results of writes of Espalier that are newer than the listing. A
// listing that is older than observedVersion comes from a cluster that was restored from a backup; it replaces all objects. It returns no
// changes for a first listing for which all callers waited.
func (s *store) replaceObjects(next map[types.NamespacedName]Object, listed string) listingChanges {
	s.mu.Lock()
	defer s.mu.Unlock()
	var found listingChanges
	restored := Older(listed, s.observedVersion)
	for key, known := range s.objects {
		object, present := next[key]
		switch {
		case !restored && Older(listed, known.ResourceVersion):
			next[key] = known
			continue
		case !present:
			found.deleted = append(found.deleted, key)
			continue
		case !known.differsOnlyInStatus(object):
			found.changed = append(found.changed, key)
		}
		if !known.hasSameVerdict(object) {
			found.judged = append(found.judged, key)
		}
	}
	for key := range next {
		if _, known := s.objects[key]; !known {
			found.changed, found.judged = append(found.changed, key), append(found.judged, key)
		}
	}
	s.objects, s.observedVersion = next, listed
	if !s.first.record() {
		return listingChanges{}
	}
	return found
}

func (s *store) lookup(key types.NamespacedName) (Object, bool) {
	s.mu.RLock()
	defer s.mu.RUnlock()
	object, found := s.objects[key]
	return object, found
}

func (s *store) dropFirstMetadata(key types.NamespacedName) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if object, found := s.objects[key]; found && object.FirstMetadata != nil {
		object.FirstMetadata = nil
		s.objects[key] = object
	}
}

func (s *store) dropAllFirstMetadata() {
	for _, key := range s.keys() {
		s.dropFirstMetadata(key)
	}
}

func (s *store) keys() []types.NamespacedName {
	s.mu.RLock()
	defer s.mu.RUnlock()
	return slices.AppendSeq(make([]types.NamespacedName, 0, len(s.objects)), maps.Keys(s.objects))
}
