// Package prune deletes the objects that a set no longer wants, and releases those that it no longer manages. Delete and Release send
// requests; PlanDeletion and PlanRelease check the same and return what they would do. What must be remembered between two calls is in
// Progress.
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

// Pruner deletes and releases objects of one set. Its fields are set once and never change.
type Pruner struct {
	Target *apply.Target
	// Watcher is unused in a plan, which reads every object.
	Watcher *observe.Watcher
	// Sets reads other sets that may hold the same objects. It must not be a cache, because a wrong result would delete an object.
	Sets  client.Reader
	Owner ownership.Owner
	// GarbageCollector is true if the garbage collector deletes garbage-collectable ConfigMaps and Secrets.
	GarbageCollector bool
	// Now is when the reconciliation began.
	Now time.Time
	// Poll is how often pending deletions are checked without an event.
	Poll time.Duration
	// WaveTimeout is how long objects that are not gone yet delay the deletion of later waves.
	WaveTimeout time.Duration
	// Parallel is how many objects of one wave are processed in parallel.
	Parallel int
}

// Result is the result of Delete.
type Result struct {
	// Pending are the objects that are not gone yet.
	Pending []Pending
	// Kept are objects that stay in the target although the user who removed them from the set may not expect that.
	Kept []Kept
	// NextCheck is when the set must be reconciled again even without an event.
	NextCheck time.Time
}

// Kept is an object that stays in the target, and why.
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
	// requested is the version whose deletion was requested, "" if it was not.
	requested string
	// due is when the next step can be made without an event; zero if never.
	due time.Time
	// deleted is the deletion timestamp of the object, zero if it has none.
	deleted time.Time
	err     error
}

// Delete deletes objects in reverse waves, and records that in progress. It starts the next wave when the objects of a wave are gone, or
// after WaveTimeout.
func (p *Pruner) Delete(ctx context.Context, refs []resourcesv1alpha1.ObjectReference, progress *Progress) Result {
	progress.begin(p.Now)
	result := Result{NextCheck: p.Now.Add(p.Poll)}
	requestCount := 0
	refresh := sync.OnceValue(p.Target.Refresh)
	waves := deleteWaves(refs)
	for number, wave := range waves {
		key, left := inventory.RefKey(wave[0]), progress.left(wave)
		steps := engine.Parallel(ctx, p.Parallel, len(left), func(i int) step { return p.deleteObject(ctx, left[i], refresh, progress) },
			func(_ int, err error) step { return step{err: err} })
		blocked := false
		for i, each := range steps {
			progress.record(inventory.RefKey(left[i]), each)
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
		if due := progress.waveBegan(key, p.Now).Add(p.WaveTimeout); p.Now.Before(due) {
			result.checkAt(due)
			for _, ref := range progress.left(slices.Concat(waves[number+1:]...)) {
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

// deleteObject takes the next step of the deletion of an object. If the target no longer serves the version of the object, the object may
// exist in another version of its kind. Refresh asks the API server which kinds it serves.
func (p *Pruner) deleteObject(ctx context.Context, ref resourcesv1alpha1.ObjectReference, refresh func() error, progress *Progress) step {
	resource, err := p.Target.Resource(ref.GroupVersionKind())
	if err == nil {
		if s := p.deleteServed(ctx, ref, resource, progress); !apply.IsUnserved(s.err) {
			return s
		}
	} else if !meta.IsNoMatchError(err) {
		return step{err: err}
	}
	// The known kinds may be outdated, and an object that the set forgets is never deleted.
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
	return p.deleteServed(ctx, ref, resource, progress)
}

// attempts is how often a deletion is requested after a conflict before the queue takes over.
const attempts = 3

// deleteServed is deleteObject for an object whose kind is served. It checks the object as the watch shows it, and requests its deletion
// with that version as the precondition. So a new annotation that protects the object prevents the deletion. After a conflict, the watch
// does not show the latest version, so the object is read.
func (p *Pruner) deleteServed(
	ctx context.Context, ref resourcesv1alpha1.ObjectReference, resource apply.Resource, progress *Progress,
) step {
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
		s := p.deleteFound(ctx, ref, resource, found.Object, progress)
		s.deleted = found.Deleted
		if !apierrors.IsConflict(s.err) {
			return s
		}
		look = p.read
	}
	return step{}
}

// deleteFound takes the next step of the deletion of an object that must not stay.
func (p *Pruner) deleteFound(
	ctx context.Context, ref resourcesv1alpha1.ObjectReference, resource apply.Resource, seen observe.Object, progress *Progress,
) step {
	if progress.wasRequested(inventory.RefKey(ref), seen) {
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
func (p *Pruner) deleteVolumeClaims(
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
		// An annotation may protect it now.
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

// finalize removes the finalizers of an object whose deletion was requested long enough ago, if its annotation allows that.
func (p *Pruner) finalize(ctx context.Context, ref resourcesv1alpha1.ObjectReference, resource apply.Resource, seen observe.Object) step {
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
		if _, err := p.Target.MergePatch(ctx, resource, ref.Namespace, ref.Name, patch); err != nil && !apierrors.IsNotFound(err) {
			return step{err: fmt.Errorf("force finalization: %w", err)}
		}
	}
	if resource.Kind.Group == "" && resource.Kind.Kind == "Namespace" {
		return step{err: p.finalizeNamespace(ctx, ref, resource, seen.UID)}
	}
	return step{}
}

// finalizeNamespace removes the finalizers from the spec of a namespace. A newer namespace of that name is left alone: it
// has another UID, and the API server refuses the update of a namespace that has changed since it was read.
func (p *Pruner) finalizeNamespace(
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
