package engine

import (
	"context"
	"errors"
	"fmt"

	batchv1 "k8s.io/api/batch/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"

	resourcesv1alpha1 "github.com/espalier-dev/espalier/api/resources/v1alpha1"
	"github.com/espalier-dev/espalier/internal/apply"
	"github.com/espalier-dev/espalier/internal/apply/fields"
	"github.com/espalier-dev/espalier/internal/apply/merge"
	"github.com/espalier-dev/espalier/internal/apply/observe"
	rules "github.com/espalier-dev/espalier/internal/health"
	"github.com/espalier-dev/espalier/internal/managedresource/desired"
	"github.com/espalier-dev/espalier/internal/managedresource/plan"
	"github.com/espalier-dev/espalier/internal/managedresource/status"
)

// outcome returns the outcome of a task from the change that it made. Out contains what was known before.
func (e *Engine) outcome(ctx context.Context, o order, c change, out Outcome) Outcome {
	name := status.Describe(o.Kind, o.Key.Namespace, o.Key.Name)
	if c.sent != nil && !rejected(c.err) {
		out.Known.Unwritten = false // even without a response, the API server may have executed the request
	}
	switch {
	case c.readErr != nil:
		out.Err = fmt.Errorf("error during apply of object %q: %w", name, c.readErr)
	case c.yielded:
		return yielded(out, c.live.GetAnnotations()[resourcesv1alpha1.OriginAnnotation])
	case c.ended:
		e.RecordEnd(o.Facts, &out.Known)
	case c.refusal != nil:
		out.Err = c.refusal // the condition contains this text
		if orphan, ok := errors.AsType[*OrphanError](c.refusal); ok {
			out.Known.GoneOwner, out.Missing = orphan.Owner, true
		}
	case c.sent == nil:
		if o.Expires { // if no watch covers it, only this read shows it
			e.Watcher.SetFinished(o.Kind.GroupKind(), o.Namespace, o.Key.Name, isFinished(c.live))
		}
		e.confirm(o, &out, observe.Condense(c.live).Fingerprint, fields.OwnWritesOf(c.live.GetManagedFields()), o.unapplied(c.live))
	case c.err == nil:
		e.written(o, c, &out)
	case c.obstacle != nil:
		out.Err = fmt.Errorf("error during apply of object %q: %w; it is not replaced, because the API server would refuse the new one: %w%s",
			name, c.err, c.obstacle, plan.WayOut(c.obstacle))
	case c.replaceable:
		var deleted bool
		deleted, out.Err = e.replace(ctx, o, c, name)
		out.Known.Confirmed = out.Known.Confirmed && !deleted
	default:
		out.Err = fmt.Errorf("error during apply of object %q: %w", name, c.err)
		out.Known.Confirmed = out.Known.Confirmed && c.live != nil && apierrors.IsConflict(c.err) // otherwise it may be written nevertheless
		out.Missing = c.live == nil && o.Same() && e.IsMissing(ctx, o.Item)
	}
	return out
}

// rejected reports whether an error is a response of the API server that proves that the request has not written anything.
func rejected(err error) bool {
	switch apierrors.ReasonForError(err) {
	case metav1.StatusReasonForbidden, metav1.StatusReasonInvalid, metav1.StatusReasonBadRequest, metav1.StatusReasonNotFound,
		metav1.StatusReasonMethodNotAllowed, metav1.StatusReasonAlreadyExists, metav1.StatusReasonConflict:
		return true
	default:
		return false
	}
}

// written completes the outcome of a request that succeeded.
func (e *Engine) written(o order, c change, out *Outcome) {
	switch {
	case c.live == nil && !o.restores():
		out.Effect = Created
	case c.live != nil && c.answer.GetResourceVersion() == c.live.GetResourceVersion():
	case c.live != nil && o.force:
		out.Effect = Updated
	default:
		out.Effect, out.Recreated = Repaired, c.live == nil
		if c.live != nil {
			out.Manager = fields.Attribute(c.live.GetManagedFields(), c.live.Object, c.changed)
			if out.Manager == "" && e.isOverwritten(o, c.live) {
				out.Manager = fields.Manager
			}
		}
		out.Known.Backoff, out.Pause = out.Known.Backoff.Repaired(out.Manager, e.Now)
	}
	e.Watcher.Record(o.Kind.GroupKind(), c.answer)
	e.confirm(o, out, fields.Fingerprint(c.answer), fields.OwnWritesOf(c.answer.GetManagedFields()), o.unapplied(c.live))
}

// isFinished reports whether a Job has finished.
func isFinished(live *unstructured.Unstructured) bool {
	job := &batchv1.Job{}
	err := runtime.DefaultUnstructuredConverter.FromUnstructured(live.Object, job)
	return err == nil && rules.IsFinished(job)
}

// RecordEnd records that an object is missing because it has finished.
func (e *Engine) RecordEnd(f Facts, known *Knowledge) {
	*known = Knowledge{Hash: f.Hash, Confirmed: true, CheckedAt: e.Now, Backoff: known.Backoff}
	e.Watcher.SetFinished(f.Kind.GroupKind(), f.Namespace, f.Key.Name, true)
}

// unapplied lists the fields of the manifest that a merge does not apply to the live object, which is nil if it was created.
func (o order) unapplied(live *unstructured.Unstructured) []string {
	if live == nil || o.Unlabelled {
		return nil
	}
	return merge.Unapplied(live, o.manifest)
}

// confirm records in the outcome that the object is in its desired state, apart from fields that are not applied.
func (e *Engine) confirm(o order, out *Outcome, fingerprint uint64, mark fields.OwnWrites, unapplied []string) {
	out.Known = Knowledge{
		Hash: o.Hash, Fingerprint: fingerprint, Confirmed: true, Mark: mark, CheckedAt: e.Now, Unapplied: unapplied, Backoff: out.Known.Backoff,
	}
	out.NewKind = !o.Mapped
	e.Watcher.DropFirstMetadata(o.Kind.GroupKind(), o.Namespace, o.Key.Name)
}

// IsMissing reports whether an object that could not be created does not exist. It reads the object, which may only have lost the label
// that the controller watches.
func (e *Engine) IsMissing(ctx context.Context, i *desired.Item) bool {
	return apply.IsGone(e.Target.InServedVersion(i.Kind, func(resource apply.Resource) error {
		_, err := e.Target.GetMetadata(ctx, resource, i.Namespace, i.Key.Name)
		return err // the caller only checks the type of the error
	}))
}

// replace deletes an object that cannot be updated. The error that it returns causes a retry, which creates the object again.
func (e *Engine) replace(ctx context.Context, o order, c change, name string) (deleted bool, err error) {
	options, err := replacementOptions(c.sent)
	if err != nil {
		return false, fmt.Errorf("error deleting object %q after 'invalid' update error: %w", name, err)
	}
	uid := c.live.GetUID()
	options.Preconditions = &metav1.Preconditions{UID: &uid}
	if c.live.GetDeletionTimestamp() == nil { // otherwise its finalizers are pending
		_, err = e.Target.Delete(ctx, o.resource, c.live.GetNamespace(), c.live.GetName(), options)
	}
	if err != nil && !apierrors.IsNotFound(err) {
		return false, fmt.Errorf("error deleting object %q after 'invalid' update error: %w", name, err)
	}
	return true, fmt.Errorf("deleted object %q because of 'invalid' update error, and 'delete-on-invalid-update' annotation on object or "+
		"the resource is an immutable ConfigMap/Secret: %w", name, c.err)
}

func replacementOptions(object metav1.Object) (metav1.DeleteOptions, error) {
	propagation := object.GetAnnotations()[resourcesv1alpha1.DeletionPropagationOnInvalidUpdate]
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
