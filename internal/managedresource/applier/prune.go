package applier

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/log"

	resourcesv1alpha1 "github.com/espalier-dev/espalier/api/resources/v1alpha1"
	"github.com/espalier-dev/espalier/internal/apply"
	"github.com/espalier-dev/espalier/internal/apply/inventory"
	"github.com/espalier-dev/espalier/internal/apply/merge"
	"github.com/espalier-dev/espalier/internal/apply/observe"
	"github.com/espalier-dev/espalier/internal/health"
	"github.com/espalier-dev/espalier/internal/managedresource/ownership"
)

// removal is the progress of the deletion of a set's objects. After a restart it is empty, which costs a read per object.
type removal struct {
	// neverWritten are objects that have left the set and that were never written: there is nothing to delete.
	neverWritten map[inventory.Key]struct{}
	// wholeSet is true if all objects of the set are deleted, and not only those that it no longer contains.
	wholeSet bool
	began    time.Time
	// done contains the objects that are gone, or that are kept.
	done map[inventory.Key]struct{}
	// waves contains the time at which the deletion of each wave began. The key is the first object of the wave.
	waves map[inventory.Key]time.Time
	// requested contains the versions of objects whose deletion was requested and that still exist: a watch may still show
	// these versions.
	requested map[inventory.Key]string
	// reportedFacts identifies the content of the last condition about the deletion.
	reportedFacts string
}

// pending is an object whose deletion is not complete.
type pending struct {
	ref resourcesv1alpha1.ObjectReference
	err error
	// warnings are the latest Warning Events about it, for kinds whose deletion depends on other controllers.
	warnings []corev1.Event
}

// removing is the work of one pass on objects that must be deleted.
type removing struct {
	*Reconciler
	pass *pass
	mu   sync.Mutex
	// nextCheck is when the set must be reconciled again even without an event.
	nextCheck time.Time
	// requestCount counts the deletions that were requested.
	requestCount int
	// rediscover limits discovery to once in a pass. Discovery precedes the decision that an object is gone with its kind; discovery is
	// its error.
	rediscover sync.Once
	discovery  error
}

// remove deletes objects in reverse waves. It returns those that are not gone yet, and the time for the next check. It starts the next wave
// when the objects of a wave are gone, or after DeletionWaveTimeout.
func (r *Reconciler) remove(ctx context.Context, p *pass, refs []resourcesv1alpha1.ObjectReference) ([]pending, time.Time) {
	state := &p.set.removal
	if state.waves == nil {
		state.waves, state.began = map[inventory.Key]time.Time{}, p.now
	}
	if state.done == nil {
		state.done = map[inventory.Key]struct{}{}
	}
	if state.requested == nil {
		state.requested = map[inventory.Key]string{}
	}
	work := &removing{Reconciler: r, pass: p, nextCheck: p.now.Add(r.DeletionPoll)}
	waves := inventory.DeleteWaves(refs, func(ref resourcesv1alpha1.ObjectReference) string { return ref.Kind },
		func(ref resourcesv1alpha1.ObjectReference) (string, string) { return ref.Namespace, ref.Name })
	var open []pending
	for number, wave := range waves {
		left := work.deleteWave(ctx, wave)
		open = append(open, left...)
		if len(left) > 0 && work.blocksLaterWaves(inventory.RefKey(wave[0])) {
			for _, later := range waves[number+1:] {
				for _, ref := range later {
					if !work.isDone(inventory.RefKey(ref)) {
						open = append(open, pending{ref: ref})
					}
				}
			}
			break
		}
	}
	if work.requestCount > 0 {
		log.FromContext(ctx).Info("Deleted objects", "count", work.requestCount, "pending", len(open))
	}
	return open, work.nextCheck
}

// blocksLaterWaves reports whether an unfinished wave still delays the next ones.
func (w *removing) blocksLaterWaves(wave inventory.Key) bool {
	since, found := w.pass.set.removal.waves[wave]
	if !found {
		since = w.pass.now
		w.pass.set.removal.waves[wave] = since
	}
	due := since.Add(w.DeletionWaveTimeout)
	if w.pass.now.Before(due) {
		w.requeueAt(due)
		return true
	}
	return false
}

func (w *removing) requeueAt(at time.Time) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if at.Before(w.nextCheck) {
		w.nextCheck = at
	}
}

func (w *removing) isDone(key inventory.Key) bool {
	w.mu.Lock()
	defer w.mu.Unlock()
	_, found := w.pass.set.removal.done[key]
	return found
}

func (w *removing) markDone(key inventory.Key) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.pass.set.removal.done[key] = struct{}{}
}

func (w *removing) deleteWave(ctx context.Context, refs []resourcesv1alpha1.ObjectReference) []pending {
	var workers sync.WaitGroup
	results := make([]*pending, len(refs))
	slots := make(chan struct{}, w.Parallel)
	for number, ref := range refs {
		if w.isDone(inventory.RefKey(ref)) {
			continue
		}
		slots <- struct{}{}
		workers.Go(func() {
			defer func() { <-slots }()
			gone := false
			err := recoverPanic(ctx, func() (err error) {
				gone, err = w.deleteObject(ctx, ref)
				return err
			})
			if gone {
				w.markDone(inventory.RefKey(ref))
				return
			}
			results[number] = &pending{ref: ref, err: err}
		})
	}
	workers.Wait()
	var open []pending
	for _, each := range results {
		if each != nil {
			open = append(open, *each)
		}
	}
	return open
}

// deleteObject takes the next step of the deletion of an object. It returns true when no work is left. If the target no longer serves the
// version of the object, the object may exist in another version of its kind.
func (w *removing) deleteObject(ctx context.Context, ref resourcesv1alpha1.ObjectReference) (bool, error) {
	resource, err := w.Target.Resource(refKind(ref))
	if err == nil {
		var gone bool
		if gone, err = w.deleteServed(ctx, ref, resource); !apply.IsUnserved(err) {
			return gone, err
		}
	} else if !meta.IsNoMatchError(err) {
		return false, err
	}
	// The known kinds may be outdated, and an object that the set forgets is never deleted.
	w.rediscover.Do(func() { w.discovery = w.Target.Refresh() })
	if w.discovery != nil {
		return false, w.discovery
	}
	resource, err = w.Target.Served(refKind(ref))
	if meta.IsNoMatchError(err) {
		return true, nil
	}
	if err != nil {
		return false, err
	}
	return w.deleteServed(ctx, ref, resource)
}

// deleteServed is deleteObject for an object whose kind is served.
func (w *removing) deleteServed(ctx context.Context, ref resourcesv1alpha1.ObjectReference, resource apply.Resource) (bool, error) {
	if !apply.CanExist(ref.Namespace, ref.Name) {
		return true, nil
	}
	if reason := w.pass.owner.Protection(inventory.RefKey(ref)); reason != "" {
		w.Events.deletionRefused(w.pass.mr, ref, reason)
		return true, nil
	}
	for range attempts {
		gone, err := w.tryDelete(ctx, ref, resource)
		if !apierrors.IsConflict(err) {
			return gone, err
		}
	}
	return false, nil
}

// tryDelete checks the object as the watch shows it, and requests its deletion with that version as the precondition. So a new annotation
// that protects the object prevents the deletion.
func (w *removing) tryDelete(ctx context.Context, ref resourcesv1alpha1.ObjectReference, resource apply.Resource) (bool, error) {
	seen, found, err := w.observe(ctx, ref, resource)
	if err != nil || !found {
		return !found && err == nil, err
	}
	stays, err := w.isKept(ctx, ref, resource, seen)
	if stays || err != nil {
		return stays, err
	}
	if w.wasRequested(ref, seen) {
		return false, nil
	}
	if !seen.Deleted.IsZero() {
		return false, w.finalize(ctx, ref, resource, seen)
	}
	if statefulSet := resource.Kind.Kind == "StatefulSet" && (resource.Kind.Group == "apps" || resource.Kind.Group == "extensions"); statefulSet && isTrue(w.pass.mr.Spec.DeletePersistentVolumeClaims) {
		err = w.deleteVolumeClaims(ctx, ref, resource, seen)
		if apierrors.IsConflict(err) {
			w.markStale(ref)
			return false, err
		}
		if err != nil {
			return false, fmt.Errorf("failed cleaning up PersistentVolumeClaims of StatefulSet: %w", err)
		}
	}
	return w.sendDelete(ctx, ref, resource, seen)
}

// sendDelete requests the deletion of the observed version of the object, and reports whether the object is gone.
func (w *removing) sendDelete(
	ctx context.Context, ref resourcesv1alpha1.ObjectReference, resource apply.Resource, seen observe.Object,
) (bool, error) {
	options := metav1.DeleteOptions{Preconditions: &metav1.Preconditions{UID: &seen.UID, ResourceVersion: &seen.ResourceVersion}}
	switch resource.Kind.Group {
	case "apps", "extensions", "batch":
		foreground := metav1.DeletePropagationForeground
		options.PropagationPolicy = &foreground
	}
	gone, err := w.Target.Delete(ctx, resource, ref.Namespace, ref.Name, options)
	if err == nil {
		w.mu.Lock()
		w.requestCount++
		w.pass.set.removal.requested[inventory.RefKey(ref)] = seen.ResourceVersion
		w.mu.Unlock()
	}
	if apierrors.IsNotFound(err) && !apply.IsUnserved(err) {
		return true, nil
	}
	if apierrors.IsConflict(err) {
		w.markStale(ref)
	}
	return gone && err == nil, err
}

// wasRequested reports whether the deletion of exactly this version was requested before: the watch does not show the deletion yet.
func (w *removing) wasRequested(ref resourcesv1alpha1.ObjectReference, seen observe.Object) bool {
	w.mu.Lock()
	defer w.mu.Unlock()
	return seen.Deleted.IsZero() && w.pass.set.removal.requested[inventory.RefKey(ref)] == seen.ResourceVersion
}

// markStale makes the next observation of the object a live read.
func (w *removing) markStale(ref resourcesv1alpha1.ObjectReference) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.pass.stale == nil {
		w.pass.stale = map[inventory.Key]struct{}{}
	}
	w.pass.stale[inventory.RefKey(ref)] = struct{}{}
}

// observe returns the state of an object, and whether it exists. If the watch does not show the object, observe reads it: the object may
// only have lost its label.
func (w *removing) observe(ctx context.Context, ref resourcesv1alpha1.ObjectReference, resource apply.Resource) (observe.Object, bool, error) {
	w.mu.Lock()
	_, stale := w.pass.stale[inventory.RefKey(ref)]
	w.mu.Unlock()
	if seen, knowledge := w.Watcher.Lookup(resource.Kind.GroupKind(), ref.Namespace, ref.Name); knowledge == observe.Present && !stale {
		return seen, true, nil
	}
	live, err := w.Target.GetMetadata(ctx, resource, ref.Namespace, ref.Name)
	if apierrors.IsNotFound(err) && !apply.IsUnserved(err) {
		return observe.Object{}, false, nil
	}
	if err != nil {
		return observe.Object{}, false, err
	}
	return observe.Condense(live), true, nil
}

// isKept reports whether an object must be kept in the target. An error means that this is unknown.
func (w *removing) isKept(
	ctx context.Context, ref resourcesv1alpha1.ObjectReference, resource apply.Resource, seen observe.Object,
) (bool, error) {
	reason, surprising, err := w.keepReason(ctx, w.pass, ref, resource, seen)
	if surprising {
		w.Events.deletionRefused(w.pass.mr, ref, reason)
	}
	return reason != "", err
}

// keepReason returns why an object is kept in the target, "" if it may be deleted, and whether that may surprise the user who removed it
// from the set. An error explains why both are unknown.
func (r *Reconciler) keepReason(
	ctx context.Context, p *pass, ref resourcesv1alpha1.ObjectReference, resource apply.Resource, seen observe.Object,
) (reason string, surprising bool, err error) {
	if merge.Truthy(seen.KeepObject) {
		return "it has the annotation " + resourcesv1alpha1.KeepObject, false, nil
	}
	collectable := ref.APIVersion == "v1" && (ref.Kind == "ConfigMap" || ref.Kind == "Secret") && merge.Truthy(seen.GarbageCollectable)
	if collectable && r.GarbageCollector {
		return "it is the garbage collector's to delete", false, nil
	}
	written := seen.Origin == p.settings.Origin
	switch p.owner.Claim(ctx, r.SourceLive, inventory.RefKey(ref), seen.Origin) {
	case ownership.Claimed:
		return fmt.Sprintf("ManagedResource %q holds it", seen.Origin), false, nil
	case ownership.Unknown:
		return fmt.Sprintf("its origin %q names a set that cannot be seen from here", seen.Origin), true, nil
	case ownership.Doubtful:
		if seen.WrittenByUs {
			return "", false, ownership.DoubtfulOriginError(seen.Origin)
		}
	case ownership.Former:
		written = seen.WrittenByUs
	case ownership.Unclaimed:
	}
	lostOrigin := seen.Origin == "" && seen.WrittenByUs && p.owner.Refusal(inventory.RefKey(ref), resource) == nil
	if !written && !lostOrigin {
		return "nothing shows that it was ever written on behalf of this set", true, nil
	}
	return "", false, nil
}

// deleteVolumeClaims requests the deletion of the PersistentVolumeClaims of a StatefulSet's templates, without waiting for their end.
func (w *removing) deleteVolumeClaims(
	ctx context.Context, ref resourcesv1alpha1.ObjectReference, resource apply.Resource, seen observe.Object,
) error {
	live, err := w.Target.Get(ctx, resource, ref.Namespace, ref.Name)
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
	claims, selector, count, err := w.volumeClaimsOf(ctx, live)
	if err != nil || count == 0 {
		return err
	}
	return w.Target.DeleteCollection(ctx, claims, ref.Namespace, selector, metav1.DeleteOptions{})
}

// volumeClaimsOf returns a selector for the PersistentVolumeClaims of a StatefulSet's templates, and their number.
func (r *Reconciler) volumeClaimsOf(
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
	claims, err = r.Target.Resource(schema.GroupVersionKind{Version: "v1", Kind: "PersistentVolumeClaim"})
	if err != nil {
		return apply.Resource{}, "", 0, err
	}
	selector = metav1.FormatLabelSelector(&metav1.LabelSelector{MatchLabels: labels})
	count, err = r.Target.Count(ctx, claims, live.GetNamespace(), selector)
	return claims, selector, count, err
}

// finalize removes the finalizers of an object whose deletion was requested long enough ago, if its annotation allows that.
func (w *removing) finalize(ctx context.Context, ref resourcesv1alpha1.ObjectReference, resource apply.Resource, seen observe.Object) error {
	if seen.FinalizeAfter == "" {
		return nil
	}
	after, err := time.ParseDuration(seen.FinalizeAfter)
	if err != nil {
		return fmt.Errorf("failed parsing duration of %s annotation: %w", resourcesv1alpha1.FinalizeDeletionAfter, err)
	}
	due := seen.Deleted.Add(after)
	if after == 0 {
		return nil
	}
	if w.pass.now.Before(due) {
		w.requeueAt(due)
		return nil
	}
	if seen.Finalizers {
		patch := map[string]any{"metadata": map[string]any{"finalizers": nil, "uid": string(seen.UID)}}
		if _, err := w.Target.MergePatch(ctx, resource, ref.Namespace, ref.Name, patch); err != nil && !apierrors.IsNotFound(err) {
			return fmt.Errorf("force finalization: %w", err)
		}
	}
	if resource.Kind.Group == "" && resource.Kind.Kind == "Namespace" {
		return w.finalizeNamespace(ctx, ref, resource, seen.UID)
	}
	return nil
}

// finalizeNamespace removes the finalizers from the spec of a namespace. A newer namespace of that name is left alone: it
// has another UID, and the API server refuses the update of a namespace that has changed since it was read.
func (w *removing) finalizeNamespace(ctx context.Context, ref resourcesv1alpha1.ObjectReference, resource apply.Resource, uid types.UID) error {
	live, err := w.Target.Get(ctx, resource, "", ref.Name)
	if err == nil && live.GetUID() == uid {
		unstructured.RemoveNestedField(live.Object, "spec", "finalizers")
		err = w.Target.Finalize(ctx, resource, live)
	}
	if err != nil && !apierrors.IsNotFound(err) {
		return fmt.Errorf("force finalization: %w", err)
	}
	return nil
}

// pendingMessage lists the objects that are not gone yet, in a fixed order and with bounded length.
func pendingMessage(open []pending, now time.Time) string {
	texts := make([]string, 0, len(open))
	for _, each := range open {
		text := fmt.Sprintf("deletion of old resource %q is still pending", describe(refKind(each.ref), each.ref.Namespace, each.ref.Name))
		if each.err != nil {
			text += ": " + each.err.Error()
		}
		if block := health.EventsBlock(each.warnings, now); block != "" {
			text += "\n\n" + block
		}
		texts = append(texts, text)
	}
	slices.Sort(texts)
	return "Could not clean all old resources" + countedErrors(texts)
}

// addEvents adds the Events that may explain why a Service still exists. They are read live, because no cache contains Events.
func (r *Reconciler) addEvents(ctx context.Context, open []pending) {
	for i, each := range open {
		if refKind(each.ref) != corev1.SchemeGroupVersion.WithKind("Service") || i >= maxListed {
			continue
		}
		about := corev1.ObjectReference{APIVersion: each.ref.APIVersion, Kind: each.ref.Kind, Namespace: each.ref.Namespace, Name: each.ref.Name}
		events := &corev1.EventList{}
		err := r.TargetLive.List(ctx, events, client.InNamespace(each.ref.Namespace), client.MatchingFields{"involvedObject.name": each.ref.Name, "involvedObject.kind": "Service"})
		if err != nil {
			log.FromContext(ctx).Info("Cannot read Events of a Service", "service", each.ref.Name, "reason", err.Error())
			continue
		}
		open[i].warnings = health.Warnings(events.Items, about)
	}
}

// pendingFacts identifies the pending deletions, without the parts of the message that change with time.
func pendingFacts(open []pending) string {
	plain := slices.Clone(open)
	var events strings.Builder
	for i := range plain {
		_, _ = events.WriteString(health.EventFacts(plain[i].warnings))
		plain[i].warnings = nil
	}
	return pendingMessage(plain, time.Time{}) + events.String()
}

// countedErrors lists errors in the format of Gardener's controllers.
func countedErrors(texts []string) string {
	if len(texts) == 1 {
		return ": 1 error occurred: " + texts[0]
	}
	return fmt.Sprintf(": %d errors occurred: [%s]", len(texts), strings.Join(bounded(texts), ", "))
}

// maxListed is how many texts a message lists.
const maxListed = 20

func bounded(texts []string) []string {
	if len(texts) <= maxListed {
		return texts
	}
	return append(slices.Clone(texts[:maxListed]), fmt.Sprintf("and %d more", len(texts)-maxListed))
}
