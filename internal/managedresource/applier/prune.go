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
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/log"

	"github.com/espalier-dev/espalier/internal/health"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"

	resourcesv1alpha1 "github.com/espalier-dev/espalier/api/resources/v1alpha1"
	"github.com/espalier-dev/espalier/internal/apply"
	"github.com/espalier-dev/espalier/internal/apply/inventory"
	"github.com/espalier-dev/espalier/internal/apply/merge"
	"github.com/espalier-dev/espalier/internal/apply/observe"
)

// removal is how far the deletion of a set's objects has come. A restart loses it, which costs a read per object.
type removal struct {
	// neverWritten are objects of which nothing was ever written, and that have left the set: nothing of them is left to do.
	neverWritten map[inventory.Key]struct{}
	// whole tells that the set itself goes, not only some of its objects.
	whole bool
	began time.Time
	// done holds the objects that are gone, or stay on purpose.
	done map[inventory.Key]struct{}
	// waves tells since when each wave, named by its first object, has been worked on.
	waves map[inventory.Key]time.Time
	// asked holds the versions of objects whose deletion was requested and that are not gone: a watch may still show
	// them as they were.
	asked map[inventory.Key]string
	// told identifies what the condition says of it.
	told string
}

// pending is an object whose deletion is not complete.
type pending struct {
	ref resourcesv1alpha1.ObjectReference
	err error
	// warnings are the latest Warning Events about it, for kinds whose deletion others have to carry out.
	warnings []corev1.Event
}

// removing is the work of one pass on objects that have to go.
type removing struct {
	*Reconciler
	pass *pass
	mu   sync.Mutex
	// again is when something is due on its own account.
	again time.Time
	// asked counts the deletions that were requested.
	asked int
	// rediscover makes the API server be asked once in a pass which kinds it serves, before objects are given up; discovery is
	// the error of that.
	rediscover sync.Once
	discovery  error
}

// remove deletes objects in reverse waves and returns those that are not gone yet. A wave holds the next ones back
// until it is gone, but not for ever.
func (r *Reconciler) remove(ctx context.Context, p *pass, refs []resourcesv1alpha1.ObjectReference) ([]pending, time.Time) {
	state := &p.set.removal
	if state.waves == nil {
		state.waves, state.began = map[inventory.Key]time.Time{}, p.now
	}
	if state.done == nil {
		state.done = map[inventory.Key]struct{}{}
	}
	if state.asked == nil {
		state.asked = map[inventory.Key]string{}
	}
	work := &removing{Reconciler: r, pass: p, again: p.now.Add(r.DeletionPoll)}
	waves := inventory.DeleteWaves(refs, func(ref resourcesv1alpha1.ObjectReference) string { return ref.Kind },
		func(ref resourcesv1alpha1.ObjectReference) (string, string) { return ref.Namespace, ref.Name })
	var open []pending
	for number, wave := range waves {
		left := work.wave(ctx, wave)
		open = append(open, left...)
		if len(left) > 0 && work.held(inventory.RefKey(wave[0])) {
			for _, later := range waves[number+1:] {
				for _, ref := range later {
					if !work.finished(inventory.RefKey(ref)) {
						open = append(open, pending{ref: ref})
					}
				}
			}
			break
		}
	}
	if work.asked > 0 {
		log.FromContext(ctx).Info("Deleted objects", "count", work.asked, "pending", len(open))
	}
	return open, work.again
}

// held tells whether an unfinished wave still holds back the next ones.
func (w *removing) held(wave inventory.Key) bool {
	since, found := w.pass.set.removal.waves[wave]
	if !found {
		since = w.pass.now
		w.pass.set.removal.waves[wave] = since
	}
	due := since.Add(w.DeletionWaveTimeout)
	if w.pass.now.Before(due) {
		w.wake(due)
		return true
	}
	return false
}

func (w *removing) wake(at time.Time) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if at.Before(w.again) {
		w.again = at
	}
}

func (w *removing) finished(key inventory.Key) bool {
	w.mu.Lock()
	defer w.mu.Unlock()
	_, found := w.pass.set.removal.done[key]
	return found
}

func (w *removing) finish(key inventory.Key) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.pass.set.removal.done[key] = struct{}{}
}

func (w *removing) wave(ctx context.Context, refs []resourcesv1alpha1.ObjectReference) []pending {
	var workers sync.WaitGroup
	results := make([]*pending, len(refs))
	slots := make(chan struct{}, w.Parallel)
	for number, ref := range refs {
		if w.finished(inventory.RefKey(ref)) {
			continue
		}
		slots <- struct{}{}
		workers.Go(func() {
			defer func() { <-slots }()
			gone := false
			err := contained(ctx, func() (err error) {
				gone, err = w.one(ctx, ref)
				return err
			})
			if gone {
				w.finish(inventory.RefKey(ref))
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

// one brings the deletion of an object forward. It returns true when nothing is left to do. An object whose version is not
// served any more may exist in another version of its kind.
func (w *removing) one(ctx context.Context, ref resourcesv1alpha1.ObjectReference) (bool, error) {
	resource, err := w.Target.Resource(refKind(ref))
	if err == nil {
		var gone bool
		if gone, err = w.bring(ctx, ref, resource); !apply.IsUnserved(err) {
			return gone, err
		}
	} else if !meta.IsNoMatchError(err) {
		return false, err //nolint:wrapcheck // the condition names the object
	}
	// What is known may be old, and an object that is given up stays for ever.
	w.rediscover.Do(func() { w.discovery = w.Target.Refresh() })
	if w.discovery != nil {
		return false, w.discovery
	}
	resource, err = w.Target.Served(refKind(ref))
	if meta.IsNoMatchError(err) {
		return true, nil
	}
	if err != nil {
		return false, err //nolint:wrapcheck // the condition names the object
	}
	return w.bring(ctx, ref, resource)
}

// bring is one for an object whose kind is served.
func (w *removing) bring(ctx context.Context, ref resourcesv1alpha1.ObjectReference, resource apply.Resource) (bool, error) {
	if !apply.CanExist(ref.Namespace, ref.Name) {
		return true, nil
	}
	if reason := w.protected(w.pass, inventory.RefKey(ref)); reason != "" {
		w.Events.deletionRefused(w.pass.mr, ref, reason)
		return true, nil
	}
	for range attempts {
		gone, err := w.try(ctx, ref, resource)
		if !apierrors.IsConflict(err) {
			return gone, err
		}
	}
	return false, nil
}

// try looks at the object as the watch knows it, and asks for its deletion under the condition that it is still so:
// an annotation that protects it cannot be overlooked.
func (w *removing) try(ctx context.Context, ref resourcesv1alpha1.ObjectReference, resource apply.Resource) (bool, error) {
	seen, found, err := w.observe(ctx, ref, resource)
	if err != nil || !found {
		return !found && err == nil, err
	}
	stays, err := w.stays(ctx, ref, resource, seen)
	if stays || err != nil {
		return stays, err
	}
	if w.requested(ref, seen) {
		return false, nil
	}
	if !seen.Deleted.IsZero() {
		return false, w.finalize(ctx, ref, resource, seen)
	}
	if statefulSet := resource.Kind.Kind == "StatefulSet" && (resource.Kind.Group == "apps" || resource.Kind.Group == "extensions"); statefulSet && isTrue(w.pass.mr.Spec.DeletePersistentVolumeClaims) {
		err = w.deleteClaims(ctx, ref, resource, seen)
		if apierrors.IsConflict(err) {
			w.stale(ref)
			return false, err
		}
		if err != nil {
			return false, fmt.Errorf("failed cleaning up PersistentVolumeClaims of StatefulSet: %w", err)
		}
	}
	return w.request(ctx, ref, resource, seen)
}

// request sends the request to delete the object as it was seen, and returns whether the object is gone.
func (w *removing) request(ctx context.Context, ref resourcesv1alpha1.ObjectReference, resource apply.Resource, seen observe.Object) (bool, error) {
	options := metav1.DeleteOptions{Preconditions: &metav1.Preconditions{UID: &seen.UID, ResourceVersion: &seen.ResourceVersion}}
	switch resource.Kind.Group {
	case "apps", "extensions", "batch":
		foreground := metav1.DeletePropagationForeground
		options.PropagationPolicy = &foreground
	}
	gone, err := w.Target.Delete(ctx, resource, ref.Namespace, ref.Name, options)
	if err == nil {
		w.mu.Lock()
		w.asked++
		w.pass.set.removal.asked[inventory.RefKey(ref)] = seen.ResourceVersion
		w.mu.Unlock()
	}
	if apierrors.IsNotFound(err) && !apply.IsUnserved(err) {
		return true, nil
	}
	if apierrors.IsConflict(err) {
		w.stale(ref)
	}
	return gone && err == nil, err //nolint:wrapcheck // the condition names the object
}

// requested tells whether the deletion of just this version was requested before: the watch has not told of it yet.
func (w *removing) requested(ref resourcesv1alpha1.ObjectReference, seen observe.Object) bool {
	w.mu.Lock()
	defer w.mu.Unlock()
	return seen.Deleted.IsZero() && w.pass.set.removal.asked[inventory.RefKey(ref)] == seen.ResourceVersion
}

// stale makes the next look-up of the object a live one.
func (w *removing) stale(ref resourcesv1alpha1.ObjectReference) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.pass.stale == nil {
		w.pass.stale = map[inventory.Key]struct{}{}
	}
	w.pass.stale[inventory.RefKey(ref)] = struct{}{}
}

// observe returns what is known of an object. That the watch does not show it proves little: it may have lost its
// label. Then only a read tells.
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
		return observe.Object{}, false, err //nolint:wrapcheck // the condition names the object
	}
	return observe.Condense(live), true, nil
}

// stays reports whether an object must be left in the target. An error says that this is not clear.
func (w *removing) stays(ctx context.Context, ref resourcesv1alpha1.ObjectReference, resource apply.Resource, seen observe.Object) (bool, error) {
	reason, surprising, err := w.whyKept(ctx, w.pass, ref, resource, seen)
	if surprising {
		w.Events.deletionRefused(w.pass.mr, ref, reason)
	}
	return reason != "", err
}

// whyKept says why an object that could be deleted is left in the target, "" if it is not, and whether that may surprise
// the user who removed it from the set. An error says why neither is clear.
func (r *Reconciler) whyKept(ctx context.Context, p *pass, ref resourcesv1alpha1.ObjectReference, resource apply.Resource, seen observe.Object) (reason string, surprising bool, err error) {
	if merge.Truthy(seen.KeepObject) {
		return "it has the annotation " + resourcesv1alpha1.KeepObject, false, nil
	}
	collectable := ref.APIVersion == "v1" && (ref.Kind == "ConfigMap" || ref.Kind == "Secret") && merge.Truthy(seen.GarbageCollectable)
	if collectable && r.GarbageCollector {
		return "it is the garbage collector's to delete", false, nil
	}
	written := seen.Origin == p.origin
	switch r.claim(ctx, r.SourceLive, p, inventory.RefKey(ref), seen.Origin) {
	case claimed:
		return fmt.Sprintf("ManagedResource %q holds it", seen.Origin), false, nil
	case unknown:
		return fmt.Sprintf("its origin %q names a set that cannot be seen from here", seen.Origin), true, nil
	case doubtful:
		if seen.Ours {
			return "", false, doubt(seen.Origin)
		}
	case former:
		written = seen.Ours
	case unclaimed:
	}
	lostOrigin := seen.Origin == "" && seen.Ours && r.guard(p, inventory.RefKey(ref), resource) == nil
	if !written && !lostOrigin {
		return "nothing shows that it was ever written on behalf of this set", true, nil
	}
	return "", false, nil
}

// deleteClaims deletes the PersistentVolumeClaims that a StatefulSet's templates made; their end is not awaited.
func (w *removing) deleteClaims(ctx context.Context, ref resourcesv1alpha1.ObjectReference, resource apply.Resource, seen observe.Object) error {
	live, err := w.Target.Get(ctx, resource, ref.Namespace, ref.Name)
	if err != nil {
		if apierrors.IsNotFound(err) {
			return nil
		}
		return err //nolint:wrapcheck // the caller names the object
	}
	if live.GetUID() != seen.UID || live.GetResourceVersion() != seen.ResourceVersion {
		return apierrors.NewConflict(resource.Resource.GroupResource(), ref.Name, errors.New("it has changed meanwhile")) // it may be protected now
	}
	claims, selector, count, err := w.claimsOf(ctx, live)
	if err != nil || count == 0 {
		return err
	}
	return w.Target.DeleteCollection(ctx, claims, ref.Namespace, selector, metav1.DeleteOptions{}) //nolint:wrapcheck // the caller names the object
}

// claimsOf finds the PersistentVolumeClaims that a StatefulSet's templates made.
func (r *Reconciler) claimsOf(ctx context.Context, live *unstructured.Unstructured) (claims apply.Resource, selector string, count int, err error) {
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
		return apply.Resource{}, "", 0, err //nolint:wrapcheck // the caller names the object
	}
	selector = metav1.FormatLabelSelector(&metav1.LabelSelector{MatchLabels: labels})
	count, err = r.Target.Count(ctx, claims, live.GetNamespace(), selector)
	return claims, selector, count, err //nolint:wrapcheck // the caller names the object
}

// finalize takes the finalizers from an object that was told to go long enough ago, if its annotation allows that.
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
		w.wake(due)
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

// pendingMessage says what is not gone yet, in a fixed order and of bounded length.
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

// explain adds the Events that may say why a Service does not go away. They are read live: no cache holds Events.
func (r *Reconciler) explain(ctx context.Context, open []pending) {
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

// pendingFacts identifies what is pending, without what changes by the mere passing of time.
func pendingFacts(open []pending) string {
	plain := slices.Clone(open)
	var events strings.Builder
	for i := range plain {
		_, _ = events.WriteString(health.EventFacts(plain[i].warnings))
		plain[i].warnings = nil
	}
	return pendingMessage(plain, time.Time{}) + events.String()
}

// countedErrors lists errors the way Gardener's controllers do.
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
