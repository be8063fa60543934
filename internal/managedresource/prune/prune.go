// Package prune deletes the objects that a set (a ManagedResource) no longer contains, or all objects of a set. It also releases objects:
// the objects of a set that have the mode "Ignore" now and that the set managed before. Deletion.Delete and Pruner.Release send requests
// that change objects. PlanDeletion and PlanRelease make the same checks and return a plan. Progress is the state that must be kept
// between two calls of Delete.
package prune

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/sets"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/log"

	resourcesv1alpha1 "github.com/espalier-dev/espalier/api/resources/v1alpha1"
	"github.com/espalier-dev/espalier/internal/apply"
	"github.com/espalier-dev/espalier/internal/apply/inventory"
	"github.com/espalier-dev/espalier/internal/apply/observe"
	"github.com/espalier-dev/espalier/internal/managedresource/engine"
	"github.com/espalier-dev/espalier/internal/managedresource/ownership"
)

// Pruner checks, plans and releases objects of one set. Its fields are set once and never change.
type Pruner struct {
	Target *apply.Target
	// Sets reads other ManagedResources: an object may belong to several sets. Sets must not be a cache, because an outdated answer could
	// cause the deletion of an object that another set contains.
	Sets  client.Reader
	Owner ownership.Owner
	// GarbageCollector is true if the garbage collector deletes garbage-collectable ConfigMaps and Secrets.
	GarbageCollector bool
	// Parallel is how many objects of one wave are processed in parallel.
	Parallel int
}

// Deletion deletes objects of one set. Only its progress changes.
type Deletion struct {
	*Pruner
	*Progress
	Watcher observe.View
	// Now is when the reconciliation began.
	Now time.Time
	// Poll is how often pending deletions are checked without an event.
	Poll time.Duration
	// WaveTimeout is how long objects that still exist may delay the deletion of later waves.
	WaveTimeout time.Duration
}

// Result is the result of Deletion.Delete.
type Result struct {
	// Pending are the objects whose deletion is not complete.
	Pending []Pending
	// Kept are objects that stay in the target although the user who removed them from the set may not expect that.
	Kept []Kept
	// NextCheck is when the set must be reconciled again even without an event.
	NextCheck time.Time
}

// Kept is an object that stays in the target, with the reason.
type Kept struct {
	Ref    resourcesv1alpha1.ObjectReference
	Reason string
}

// step is the result of the next step of the deletion of one object.
type step struct {
	// done is true if no work is left.
	done bool
	// kept is why the object stays, if that may surprise the user.
	kept string
	// requested is the resourceVersion of the object whose deletion was requested, "" if no deletion was requested.
	requested string
	// due is when the next step can be taken without an event; zero if the next step needs an event.
	due time.Time
	// deleted is the deletion timestamp of the object, zero if it has none.
	deleted time.Time
	err     error
}

// Delete deletes objects in reverse waves, and records its progress. It starts the next wave when each object of a wave is gone or is
// kept. It also starts the next wave when the objects of a wave have delayed it for WaveTimeout.
func (p *Deletion) Delete(ctx context.Context, refs []resourcesv1alpha1.ObjectReference) Result {
	p.begin(p.Now)
	result := Result{NextCheck: p.Now.Add(p.Poll)}
	requestCount := 0
	refresh := sync.OnceValue(p.Target.Refresh)
	waves := deleteWaves(refs)
	for number, wave := range waves {
		key, left := inventory.RefKey(wave[0]), p.left(wave)
		steps := engine.Parallel(ctx, p.Parallel, len(left), func(i int) step { return p.deleteObject(ctx, left[i], refresh) },
			func(_ int, err error) step { return step{err: err} })
		blocked := false
		for i, each := range steps {
			p.record(inventory.RefKey(left[i]), each)
			if each.requested != "" {
				requestCount++
			}
			if each.kept != "" {
				result.Kept = append(result.Kept, Kept{left[i], each.kept})
			}
			if !each.done {
				blocked = true
				result.Pending = append(result.Pending, Pending{ref: left[i], deleted: each.deleted, err: each.err})
			}
			result.checkAt(each.due)
		}
		if !blocked {
			continue
		}
		if due := p.waveBegan(key, p.Now).Add(p.WaveTimeout); p.Now.Before(due) {
			result.checkAt(due)
			for _, ref := range p.left(slices.Concat(waves[number+1:]...)) {
				result.Pending = append(result.Pending, Pending{ref: ref})
			}
			break
		}
	}
	if requestCount > 0 {
		log.FromContext(ctx).Info("Deleted objects", "count", requestCount, "pending", len(result.Pending))
	}
	return result
}

func (r *Result) checkAt(at time.Time) {
	if !at.IsZero() && at.Before(r.NextCheck) {
		r.NextCheck = at
	}
}

func deleteWaves(refs []resourcesv1alpha1.ObjectReference) [][]resourcesv1alpha1.ObjectReference {
	return inventory.DeleteWaves(refs, func(ref resourcesv1alpha1.ObjectReference) string { return ref.Kind },
		func(ref resourcesv1alpha1.ObjectReference) (string, string) { return ref.Namespace, ref.Name })
}

// deleteObject takes the next step of the deletion of an object. If the target no longer serves the API version in ref, the object may
// still exist in another version of its kind. Then deleteObject calls refresh, which asks the API server for the kinds that it serves, and
// continues with a served version. If the API server serves no version of the kind, the object counts as gone.
func (p *Deletion) deleteObject(ctx context.Context, ref resourcesv1alpha1.ObjectReference, refresh func() error) step {
	resource, err := p.Target.Resource(ref.GroupVersionKind())
	if err == nil {
		if s := p.deleteServed(ctx, ref, resource); !apply.IsUnserved(s.err) {
			return s
		}
	} else if !meta.IsNoMatchError(err) {
		return step{err: err}
	}
	// The known kinds may be outdated. If the object counted as gone by mistake, it would never be deleted.
	if err = refresh(); err != nil {
		return step{err: err}
	}
	resource, err = p.Target.Served(ref.GroupVersionKind())
	if meta.IsNoMatchError(err) {
		return step{done: true}
	}
	if err != nil {
		return step{err: err}
	}
	return p.deleteServed(ctx, ref, resource)
}

// attempts is how many times a deletion is requested if each request ends with a conflict. After that, the work queue retries the set.
const attempts = 3

// deleteServed is like deleteObject, for an object whose kind is served. It checks the object as the watch shows it. It then requests the
// deletion with the resourceVersion of the checked object as a precondition. So a protecting annotation that was added later prevents the
// deletion. After a conflict, the watch does not show the latest version, so deleteServed reads the object and checks it again.
func (p *Deletion) deleteServed(ctx context.Context, ref resourcesv1alpha1.ObjectReference, resource apply.Resource) step {
	look := p.watch
	for range attempts {
		found, err := p.examine(ctx, ref, resource, look)
		if err != nil {
			return step{err: err}
		}
		if found.gone != "" || found.stays != "" {
			p.Watcher.SetFinished(resource.Kind.GroupKind(), ref.Namespace, ref.Name, false) // no set needs to know that any more
			s := step{done: true}
			if found.surprising {
				s.kept = found.stays
			}
			return s
		}
		s := p.deleteFound(ctx, ref, resource, found.Object)
		s.deleted = found.Deleted
		if !apierrors.IsConflict(s.err) {
			return s
		}
		look = p.read
	}
	return step{}
}

// watch is a function of type look. It returns the object from the watch if the watch shows the object. Otherwise it reads the object from
// the API server, because the object may only have lost the managed-by label. If the set is applied as a ServiceAccount, watch also reads
// each object whose origin annotation does not name this set: the ServiceAccount may not have the right to read such an object.
func (p *Deletion) watch(ctx context.Context, ref resourcesv1alpha1.ObjectReference, resource apply.Resource) (*sighting, error) {
	if seen, presence := p.Watcher.Lookup(resource.Kind.GroupKind(), ref.Namespace, ref.Name); presence == observe.Present &&
		(!p.Target.IsImpersonated() || seen.Origin == p.Owner.Origin()) {
		return &sighting{Object: seen}, nil
	}
	return p.read(ctx, ref, resource)
}

// deleteFound takes the next step of the deletion of an object that exists and must not stay.
func (p *Deletion) deleteFound(
	ctx context.Context, ref resourcesv1alpha1.ObjectReference, resource apply.Resource, seen observe.Object,
) step {
	if p.wasRequested(inventory.RefKey(ref), seen) {
		return step{}
	}
	if !seen.Deleted.IsZero() {
		return p.finalize(ctx, ref, resource, seen)
	}
	if p.deletesVolumeClaims(resource) {
		err := p.deleteVolumeClaims(ctx, ref, resource, seen)
		if apierrors.IsConflict(err) {
			return step{err: err}
		}
		if err != nil {
			return step{err: fmt.Errorf("failed cleaning up PersistentVolumeClaims of StatefulSet: %w", err)}
		}
	}
	options := metav1.DeleteOptions{Preconditions: &metav1.Preconditions{UID: &seen.UID, ResourceVersion: &seen.ResourceVersion}}
	switch resource.Kind.Group {
	case "apps", "extensions", "batch":
		options.PropagationPolicy = ptr.To(metav1.DeletePropagationForeground)
	}
	gone, err := p.Target.Delete(ctx, resource, ref.Namespace, ref.Name, options)
	switch {
	case err == nil:
		return step{done: gone, requested: seen.ResourceVersion}
	case apierrors.IsNotFound(err) && !apply.IsUnserved(err):
		return step{done: true}
	}
	return step{err: err}
}

// deletesVolumeClaims reports whether the PersistentVolumeClaims of an object are deleted before the object.
func (p *Pruner) deletesVolumeClaims(resource apply.Resource) bool {
	return resource.Kind.Kind == "StatefulSet" && (resource.Kind.Group == "apps" || resource.Kind.Group == "extensions") &&
		ptr.Deref(p.Owner.Set.Spec.DeletePersistentVolumeClaims, false)
}

// deleteVolumeClaims requests the deletion of the PersistentVolumeClaims of a StatefulSet's templates, without waiting for their end.
func (p *Deletion) deleteVolumeClaims(
	ctx context.Context, ref resourcesv1alpha1.ObjectReference, resource apply.Resource, seen observe.Object,
) error {
	live, err := p.Target.Get(ctx, resource, ref.Namespace, ref.Name)
	if err != nil {
		if apierrors.IsNotFound(err) {
			return nil
		}
		return err
	}
	if live.GetUID() != seen.UID || live.GetResourceVersion() != seen.ResourceVersion {
		// The object has changed, so an annotation may protect it now.
		return apierrors.NewConflict(resource.Resource.GroupResource(), ref.Name, errors.New("it has changed meanwhile"))
	}
	claims, selector, count, err := p.volumeClaimsOf(ctx, live)
	if err != nil || count == 0 {
		return err
	}
	return p.Target.DeleteCollection(ctx, claims, ref.Namespace, selector, metav1.DeleteOptions{})
}

// volumeClaimsOf returns a selector for the PersistentVolumeClaims of a StatefulSet's templates, and their number.
func (p *Pruner) volumeClaimsOf(
	ctx context.Context, live *unstructured.Unstructured,
) (claims apply.Resource, selector string, count int, err error) {
	templates, _, _ := unstructured.NestedSlice(live.Object, "spec", "volumeClaimTemplates")
	labels, _, err := unstructured.NestedStringMap(live.Object, "spec", "selector", "matchLabels")
	if err != nil {
		return apply.Resource{}, "", 0, fmt.Errorf("read its selector: %w", err)
	}
	if len(templates) == 0 || len(labels) == 0 {
		return apply.Resource{}, "", 0, nil // without matchLabels every claim of the namespace would match
	}
	claims, err = p.Target.Resource(schema.GroupVersionKind{Version: "v1", Kind: "PersistentVolumeClaim"})
	if err != nil {
		return apply.Resource{}, "", 0, err
	}
	selector = metav1.FormatLabelSelector(&metav1.LabelSelector{MatchLabels: labels})
	count, err = p.Target.Count(ctx, claims, live.GetNamespace(), selector)
	return claims, selector, count, err
}

// finalize removes the finalizers of an object whose deletion was requested longer ago than the duration in its annotation
// FinalizeDeletionAfter. If the object is a Namespace, finalize also removes the finalizers in its spec. It does nothing if the object
// lacks the annotation or if the duration is 0.
func (p *Deletion) finalize(ctx context.Context, ref resourcesv1alpha1.ObjectReference, resource apply.Resource, seen observe.Object) step {
	if seen.FinalizeAfter == "" {
		return step{}
	}
	after, err := time.ParseDuration(seen.FinalizeAfter)
	if err != nil {
		return step{err: fmt.Errorf("failed parsing duration of %s annotation: %w", resourcesv1alpha1.FinalizeDeletionAfter, err)}
	}
	due := seen.Deleted.Add(after)
	if after == 0 {
		return step{}
	}
	if p.Now.Before(due) {
		return step{due: due}
	}
	if seen.Finalizers {
		patch := map[string]any{"metadata": map[string]any{"finalizers": nil, "uid": string(seen.UID)}}
		if err := p.Target.MergePatch(ctx, resource, ref.Namespace, ref.Name, patch); err != nil && !apierrors.IsNotFound(err) {
			return step{err: fmt.Errorf("force finalization: %w", err)}
		}
	}
	if resource.Kind.Group == "" && resource.Kind.Kind == "Namespace" {
		return step{err: p.finalizeNamespace(ctx, ref, resource, seen.UID)}
	}
	return step{}
}

// finalizeNamespace removes the finalizers from the spec of a namespace. It does not change a newer namespace of the same name: that has
// another UID, and the API server refuses the update of a namespace that has changed since it was read.
func (p *Deletion) finalizeNamespace(
	ctx context.Context, ref resourcesv1alpha1.ObjectReference, resource apply.Resource, uid types.UID,
) error {
	live, err := p.Target.Get(ctx, resource, "", ref.Name)
	if err == nil && live.GetUID() == uid {
		unstructured.RemoveNestedField(live.Object, "spec", "finalizers")
		err = p.Target.Finalize(ctx, resource, live)
	}
	if err != nil && !apierrors.IsNotFound(err) {
		return fmt.Errorf("force finalization: %w", err)
	}
	return nil
}

// Progress is the progress of a Deletion. After a restart it is empty: then Delete reads again each object that the watch does not show.
// Delete changes Progress only while it processes no objects in parallel.
type Progress struct {
	wholeSet bool
	// Began is when the deletion began.
	Began time.Time
	// done contains the objects that are gone, that are kept, or that Espalier never wrote.
	done sets.Set[inventory.Key]
	// waves contains, for each wave, the time since which it delays the following waves. The key is the first object of the wave.
	waves map[inventory.Key]time.Time
	// requested contains the versions of objects whose deletion was requested and that still exist: a watch may still show these versions.
	requested map[inventory.Key]string
	// Reported is the result of Facts for the last condition that was written about the deletion.
	Reported string
}

// NewProgress returns the progress before a deletion. wholeSet is true if all objects of the set are deleted, and not only objects that the
// set no longer contains. neverWritten are objects that need no deletion, because Espalier never wrote them.
func NewProgress(wholeSet bool, neverWritten sets.Set[inventory.Key]) *Progress {
	return &Progress{
		wholeSet: wholeSet, done: neverWritten.Clone(), waves: map[inventory.Key]time.Time{}, requested: map[inventory.Key]string{},
	}
}

// OfWholeSet reports whether all objects of the set are deleted.
func (p *Progress) OfWholeSet() bool { return p != nil && p.wholeSet }

// begin records the begin of the deletion. If the clock was set back since then, the deletion counts as begun now.
func (p *Progress) begin(now time.Time) {
	if p.Began.IsZero() || now.Before(p.Began) {
		p.Began = now
	}
}

// waveBegan returns the recorded time since which a wave, named by its first object, delays the following waves. If no time is recorded, or
// the clock was set back since then, it records and returns now.
func (p *Progress) waveBegan(wave inventory.Key, now time.Time) time.Time {
	if began, found := p.waves[wave]; !found || now.Before(began) {
		p.waves[wave] = now
	}
	return p.waves[wave]
}

// left returns the objects that are not done.
func (p *Progress) left(refs []resourcesv1alpha1.ObjectReference) []resourcesv1alpha1.ObjectReference {
	var left []resourcesv1alpha1.ObjectReference
	for _, ref := range refs {
		if !p.done.Has(inventory.RefKey(ref)) {
			left = append(left, ref)
		}
	}
	return left
}

func (p *Progress) record(key inventory.Key, s step) {
	if s.done {
		p.done.Insert(key)
	}
	if s.requested != "" {
		p.requested[key] = s.requested
	}
}

// wasRequested reports whether the deletion of exactly this version was requested before: the watch does not show the deletion yet.
func (p *Progress) wasRequested(key inventory.Key, seen observe.Object) bool {
	return seen.Deleted.IsZero() && p.requested[key] == seen.ResourceVersion
}
