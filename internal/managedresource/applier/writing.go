package applier

import (
	"context"
	"errors"
	"fmt"
	"strings"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"sigs.k8s.io/structured-merge-diff/v6/fieldpath"

	resourcesv1alpha1 "github.com/espalier-dev/espalier/api/resources/v1alpha1"
	"github.com/espalier-dev/espalier/internal/apply"
	"github.com/espalier-dev/espalier/internal/apply/fields"
	"github.com/espalier-dev/espalier/internal/apply/merge"
	"github.com/espalier-dev/espalier/internal/apply/observe"
	"github.com/espalier-dev/espalier/internal/managedresource/ownership"
)

// writing is the work on one object.
type writing struct {
	*Reconciler
	pass     *pass
	item     *item
	resource apply.Resource
	manifest *unstructured.Unstructured
	options  merge.Options
	result   *outcome
	// same is true if the desired state has not changed since the last apply.
	same bool
	// yields is true if the object must be left to another set that holds it.
	yields bool
	// force writes even if nothing seems to differ: fields that are no longer desired cannot be distinguished from defaults.
	force bool
}

// verifyByManagedFields reports whether managedFields prove that the object is as an earlier process left it. Then the object is confirmed
// without a read.
func (w *writing) verifyByManagedFields(seen observe.Object) bool {
	desired, err := merge.ForCreate(w.manifest, w.options)
	if err != nil {
		return false
	}
	for _, each := range []struct{ want, have map[string]string }{
		{desired.GetLabels(), seen.FirstMetadata.Labels}, {desired.GetAnnotations(), seen.FirstMetadata.Annotations},
	} {
		for key, value := range each.want {
			if have, found := each.have[key]; !found || have != value {
				return false
			}
		}
	}
	tolerance := fields.Tolerance{ForceLabels: w.options.ForceLabels, ForceAnnotations: w.options.ForceAnnotations, Desired: desired.Object}
	if !fields.Covers(seen.FirstMetadata.ManagedFields, desired.Object) || !fields.OnlyTolerated(seen.FirstMetadata.ManagedFields, tolerance) {
		return false
	}
	w.confirm(seen.Fingerprint, fields.OwnWritesOf(seen.FirstMetadata.ManagedFields))
	return true
}

// create writes an object that does not exist. If fallback is true and the object exists, create updates it instead.
func (w *writing) create(ctx context.Context, fallback bool) error {
	desired, err := w.desired()
	if err != nil {
		return err
	}
	reference := *w.item.reference()
	reference.Namespace = w.item.Namespace
	ref := resourcesv1alpha1.ObjectReference{ObjectReference: reference}
	if w.same { // before the request, so that the health controller cannot find the object healthy before it knows of the recreation
		w.memory.addRecreation(w.pass.name, ref, w.pass.now)
	}
	written, err := w.send(func() (metav1.Object, error) { return w.Target.Create(ctx, w.resource, desired) })
	if err != nil {
		w.memory.dropRecreations(w.pass.name, []resourcesv1alpha1.ObjectReference{ref})
	}
	if apierrors.IsAlreadyExists(err) && fallback {
		w.force = w.force || !w.same
		return w.update(ctx)
	}
	if err != nil {
		w.noteIfMissing(ctx)
		return w.failed(err)
	}
	if w.same {
		w.repaired(nil, nil)
		w.memory.confirmRecreation(w.pass.name, ref)
		w.Concluded(w.pass.name)
	} else {
		w.result.count(&w.result.created)
	}
	w.record(written)
	return nil
}

// noteIfMissing records an object that the set had before as missing, after it could not be created. It reads the object, which may only
// have lost the label that the controller watches.
func (w *writing) noteIfMissing(ctx context.Context) {
	if !w.same {
		return
	}
	err := w.Target.InServedVersion(w.item.Kind, func(resource apply.Resource) error {
		_, err := w.Target.GetMetadata(ctx, resource, w.manifest.GetNamespace(), w.item.Key.Name)
		return err // the caller only checks the type of the error
	})
	if apply.IsGone(err) {
		w.result.addMissing(w.item)
	}
}

func (w *writing) desired() (*unstructured.Unstructured, error) {
	if w.item.Unlabelled {
		return merge.ForCreateIgnored(w.manifest), nil
	}
	return merge.ForCreate(w.manifest, w.options) // the condition contains this text
}

func (w *writing) describe() string {
	return describe(w.item.Kind, w.item.Key.Namespace, w.item.Key.Name)
}

// update reads the object and writes what differs. If another client wrote in between, it tries again.
func (w *writing) update(ctx context.Context) error {
	var err error
	for range attempts {
		if err = w.tryUpdate(ctx); !apierrors.IsConflict(err) {
			return err
		}
	}
	return fmt.Errorf("error during apply of object %q: %w", w.describe(), err)
}

func (w *writing) tryUpdate(ctx context.Context) error {
	live, err := w.Target.Get(ctx, w.resource, w.manifest.GetNamespace(), w.item.Key.Name)
	if apierrors.IsNotFound(err) {
		return w.create(ctx, false)
	}
	if err != nil {
		return fmt.Errorf("error during apply of object %q: %w", w.describe(), err)
	}
	if w.yields {
		origin := live.GetAnnotations()[resourcesv1alpha1.OriginAnnotation]
		if w.pass.owner.Claim(ctx, w.Source, w.item.Key, origin) == ownership.Claimed {
			return w.yieldToOtherSet(w.pass, w.item, origin, w.result)
		}
	}
	merged, changed, err := w.merge(live)
	if err != nil {
		return err
	}
	if merged == nil {
		w.confirm(observe.Condense(live).Fingerprint, fields.OwnWritesOf(live.GetManagedFields()))
		return nil
	}
	written, err := w.send(func() (metav1.Object, error) { return w.Target.Update(ctx, w.resource, merged) })
	switch {
	case apierrors.IsConflict(err):
		return err
	case apierrors.IsInvalid(err) && w.replaceable(merged, err):
		return w.replace(ctx, live, merged, err)
	case err != nil:
		return w.failed(err)
	}
	switch {
	case written.GetResourceVersion() == live.GetResourceVersion():
	case w.force:
		w.result.count(&w.result.updated)
	default:
		w.repaired(live, changed)
	}
	w.record(written)
	return nil
}

// merge returns the object to write, nil if no write is needed, and the paths at which live differs from it.
func (w *writing) merge(live *unstructured.Unstructured) (*unstructured.Unstructured, []fieldpath.Path, error) {
	if w.item.Unlabelled {
		merged, changed := merge.MergeIgnored(live)
		if !changed {
			merged = nil
		}
		return merged, nil, nil
	}
	options := w.options
	options.Previous = written(live, options.Previous)
	merged, err := merge.Merge(live, w.manifest, options)
	if err != nil {
		return nil, nil, err // the condition contains this text
	}
	changed := append(merge.Differences(live, merged), fields.Additions(live.GetManagedFields(), live.Object, merged.Object)...)
	// Without an entry of ours in managedFields, or with one that another program wrote, it is unknown which fields other managers added.
	// Then the API server compares: a write that changes nothing does not change the resourceVersion.
	if !w.force && len(changed) == 0 && fields.WrittenByUs(live.GetManagedFields()) && !w.overwritten(live) {
		return nil, nil, nil
	}
	return merged, changed, nil
}

// overwritten reports whether another program has written to the object under the field manager of this controller or of
// gardener-resource-manager. Fields that such a write added look like defaults of the API server, and its values may not be the desired
// ones.
func (w *writing) overwritten(live *unstructured.Unstructured) bool {
	if !w.same || w.item.Unlabelled {
		return false
	}
	if known := w.item.known; known.confirmed {
		return fields.OwnWritesOf(live.GetManagedFields()).ChangedSince(known.mark)
	}
	return fields.LastOwnWrite(live.GetManagedFields()).After(*w.pass.set.initialStatusTime)
}

// written returns the status entry of an object, corrected by what managedFields prove. The status contains one value for each label and
// annotation. If a process died while it changed one, that may not be the value that it wrote last.
func written(live *unstructured.Unstructured, previous *resourcesv1alpha1.ObjectReference) *resourcesv1alpha1.ObjectReference {
	if previous == nil {
		return nil // it was not this set that wrote them
	}
	corrected := previous.DeepCopy()
	correct := func(part string, recorded, values map[string]string) {
		for _, key := range fields.KeysOwnedOnlyByUs(live.GetManagedFields(), part) {
			if _, found := recorded[key]; found { // the API server may have added others as defaults
				recorded[key] = values[key]
			}
		}
	}
	correct("labels", corrected.Labels, live.GetLabels())
	correct("annotations", corrected.Annotations, live.GetAnnotations())
	return corrected
}

// send sends a request that writes the object. Unless the API server rejects it, the object may be written, even without a response.
func (w *writing) send(request func() (metav1.Object, error)) (metav1.Object, error) {
	unwritten := w.item.known.unwritten
	w.item.known.unwritten = false
	written, err := request()
	if rejected(err) {
		w.item.known.unwritten = unwritten
	}
	return written, err
}

// failed wraps the error of a write. The API server may have executed the write nevertheless, so the known state is no longer valid.
func (w *writing) failed(err error) error {
	w.item.known.confirmed = false
	return fmt.Errorf("error during apply of object %q: %w", w.describe(), err)
}

const immutableField = "field is immutable when `immutable` is set"

// replaceable reports whether the object may be deleted and created again after the API server has rejected its update as invalid.
func (w *writing) replaceable(merged *unstructured.Unstructured, err error) bool {
	if merge.Truthy(merged.GetAnnotations()[resourcesv1alpha1.DeleteOnInvalidUpdate]) {
		return true
	}
	if kind := w.item.Kind; kind.Group != "" || kind.Version != "v1" || kind.Kind != "ConfigMap" && kind.Kind != "Secret" {
		return false
	}
	var status apierrors.APIStatus
	if !errors.As(err, &status) || status.Status().Details == nil {
		return false
	}
	for _, cause := range status.Status().Details.Causes {
		if cause.Type == metav1.CauseType("FieldValueForbidden") {
			return strings.Contains(cause.Message, immutableField)
		}
	}
	return false
}

// replace deletes an object that cannot be updated. The error that it returns causes a retry, which creates the object again.
func (w *writing) replace(ctx context.Context, live, merged *unstructured.Unstructured, invalid error) error {
	options, err := replacementOptions(merged.GetAnnotations()[resourcesv1alpha1.DeletionPropagationOnInvalidUpdate])
	if err != nil {
		return fmt.Errorf("error deleting object %q after 'invalid' update error: %w", w.describe(), err)
	}
	uid := live.GetUID()
	options.Preconditions = &metav1.Preconditions{UID: &uid}
	if live.GetDeletionTimestamp() == nil { // otherwise its finalizers are pending
		_, err = w.Target.Delete(ctx, w.resource, live.GetNamespace(), live.GetName(), options)
	}
	if err != nil && !apierrors.IsNotFound(err) {
		return fmt.Errorf("error deleting object %q after 'invalid' update error: %w", w.describe(), err)
	}
	w.item.known.confirmed = false
	return &replacedError{fmt.Errorf("deleted object %q because of 'invalid' update error, and 'delete-on-invalid-update' annotation on object or the resource is an immutable ConfigMap/Secret: %w", w.describe(), invalid)}
}

func replacementOptions(propagation string) (metav1.DeleteOptions, error) {
	policy := metav1.DeletionPropagation(propagation)
	switch policy {
	case "":
		return metav1.DeleteOptions{}, nil
	case metav1.DeletePropagationBackground, metav1.DeletePropagationForeground, metav1.DeletePropagationOrphan:
		return metav1.DeleteOptions{PropagationPolicy: &policy}, nil
	}
	return metav1.DeleteOptions{}, fmt.Errorf("annotation %s has value %q, allowed are Background, Foreground and Orphan",
		resourcesv1alpha1.DeletionPropagationOnInvalidUpdate, propagation)
}

// replacedError means that an object was deleted so that it can be created again.
type replacedError struct{ error }

func (e *replacedError) Unwrap() error { return e.error }

// record stores the written object as the known state.
func (w *writing) record(written metav1.Object) {
	w.Watcher.Record(w.item.Kind.GroupKind(), written)
	w.confirm(fields.Fingerprint(written), fields.OwnWritesOf(written.GetManagedFields()))
}

// confirm records that the object is in its desired state.
func (w *writing) confirm(fingerprint uint64, mark fields.OwnWrites) {
	w.item.known = knowledge{
		hash: w.item.Hash, fingerprint: fingerprint, confirmed: true, mark: mark, checkedAt: w.pass.now, backoff: w.item.known.backoff,
	}
	w.Watcher.DropFirstMetadata(w.item.Kind.GroupKind(), w.item.Namespace, w.item.Key.Name)
	if !w.item.Mapped {
		w.result.mu.Lock()
		w.result.newKinds = true
		w.result.mu.Unlock()
	}
}

// repaired reports a repaired drift, and pauses repairs if there were too many. Live is nil if the object was missing.
func (w *writing) repaired(live *unstructured.Unstructured, changed []fieldpath.Path) {
	manager := ""
	if live != nil {
		manager = fields.Attribute(live.GetManagedFields(), live.Object, changed)
		if manager == "" && w.overwritten(live) {
			manager = fields.Manager
		}
	}
	w.result.count(&w.result.repaired)
	w.Metrics.addRepair(w.item.Kind, manager)
	w.Events.driftRepaired(w.pass.mr, w.item, live == nil, manager)
	next, pause := w.item.known.backoff.Repaired(manager, w.pass.now)
	w.item.known.backoff = next
	if pause > 0 {
		w.Events.repairPaused(w.pass.mr, w.item, manager, pause)
		w.result.requeueAt(w.pass.now.Add(pause))
	}
}
