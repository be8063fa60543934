package engine

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/utils/clock"

	resourcesv1alpha1 "github.com/espalier-dev/espalier/api/resources/v1alpha1"
	"github.com/espalier-dev/espalier/internal/apply"
	"github.com/espalier-dev/espalier/internal/apply/fields"
	"github.com/espalier-dev/espalier/internal/apply/inventory"
	"github.com/espalier-dev/espalier/internal/apply/merge"
	"github.com/espalier-dev/espalier/internal/apply/observe"
	rules "github.com/espalier-dev/espalier/internal/health"
	"github.com/espalier-dev/espalier/internal/managedresource/desired"
	"github.com/espalier-dev/espalier/internal/managedresource/ownership"
	"github.com/espalier-dev/espalier/internal/managedresource/plan"
	"github.com/espalier-dev/espalier/internal/managedresource/status"
)

// Executor brings the objects of a set to their desired state.
type Executor struct {
	*Engine
	Clock   clock.WithTicker
	Watcher observe.View
	// Now is when the reconciliation began.
	Now time.Time
	// AllFieldsApplied is true if the status shows that no object kept a field that differs from its manifest.
	AllFieldsApplied bool
	// ReportDrift is true if changes by other clients are reported and not reverted.
	ReportDrift bool
	// Recreate is called before an object that another client deleted is created again, so that the health controller learns of the deletion
	// before it can judge the new object as healthy. The function that Recreate returns is called after the request, and its argument says
	// whether the object was created.
	Recreate func(resourcesv1alpha1.ObjectReference) func(created bool)
}

// Apply carries out the tasks. It processes one wave after the other, and the objects of a wave in parallel. It continues after failures.
// When a wave is complete, it calls report for each task of the wave. If the autoscalers are not known, it reports this error for the tasks
// of scalable kinds and does not carry them out.
func (e *Executor) Apply(ctx context.Context, tasks []Task, report func(Task, Outcome)) {
	if scaled, err := e.watchAutoscalers(ctx, tasks); err != nil {
		tasks = slices.DeleteFunc(tasks, func(t Task) bool {
			if scaled(t) {
				report(t, Outcome{Known: t.Known, Err: err})
			}
			return scaled(t)
		})
	}
	waves := applyWaves(tasks)
	for number, wave := range waves {
		outcomes := Parallel(ctx, e.Parallel, len(wave), func(number int) Outcome { return e.apply(ctx, wave[number]) },
			func(number int, err error) Outcome { // a request may have been sent
				known := wave[number].Known
				known.Confirmed, known.Unwritten = false, false
				return Outcome{Known: known, Err: err}
			})
		var applied []Task
		for number, each := range outcomes {
			report(wave[number], each)
			if each.Err == nil {
				applied = append(applied, wave[number])
			}
		}
		e.awaitDefinitions(ctx, applied, waves[number+1:])
	}
}

func applyWaves(tasks []Task) [][]Task {
	return inventory.ApplyWaves(tasks, func(t Task) string { return t.Kind.Kind },
		func(t Task) (string, string) { return t.Key.Namespace, t.Key.Name })
}

// apply carries out one task.
func (e *Executor) apply(ctx context.Context, t Task) Outcome {
	out := Outcome{Known: t.Known}
	if t.Previous == nil && !t.Known.Confirmed {
		out.Known.Unwritten = true // the status did not list it when this pass began
	}
	resource, err := e.admit(t.Item)
	if err != nil {
		out.Err = err
		return out
	}
	if t.Yields && e.mayShowOrigin(t) && e.Owner.Claim(ctx, e.Sets, t.Key, t.Seen.Origin) == ownership.Claimed {
		return yielded(out, t.Seen.Origin)
	}
	o, err := e.order(ctx, t, resource)
	if err != nil {
		out.Err = err
		return out
	}
	if t.Action == Verify && e.isProven(o) {
		e.confirm(o, &out, t.Seen.Fingerprint, fields.OwnWritesOf(t.Seen.FirstMetadata.ManagedFields), nil)
		return out
	}
	o.writer = e.Target
	reports := o.restores() && e.ReportDrift
	if reports {
		o.writer = apply.DryRun{Target: e.Target}
	} else if o.restores() {
		o.recreate = e.Recreate
	}
	c := e.write(ctx, o)
	if reports && c.sent != nil {
		return e.drift(o, c, out)
	}
	return e.outcome(ctx, o, c, out)
}

// DriftDeleted is the value of Knowledge.Drift for an object that another client has deleted.
const DriftDeleted = "deleted"

// drift returns the outcome of a task whose object must not be repaired. The change contains the answer to a dry run of the repair, which
// shows whether the object differs from its manifest.
func (e *Executor) drift(o order, c change, out Outcome) Outcome {
	mark := o.Known.Mark
	switch {
	case c.err != nil:
		out.Err = fmt.Errorf("error during apply of object %q: %w", status.Describe(o.Kind, o.Key.Namespace, o.Key.Name), c.err)
	case c.live == nil:
		out.Known = Knowledge{Hash: o.Hash, Confirmed: true, CheckedAt: e.Now, Backoff: out.Known.Backoff, Drift: DriftDeleted}
		out.Effect = Drifted
	default:
		e.confirm(o, &out, observe.Condense(c.live).Fingerprint, fields.OwnWritesOf(c.live.GetManagedFields()), o.unapplied(c.live))
		if overwritten := e.isOverwritten(o, c.live); c.changesObject(overwritten) {
			out.Effect, out.Manager, out.Known.Drift = Drifted, c.manager(), "changed"
			out.Known.Mark = mark // so that a write under the name of this controller remains known until it is reverted
			if out.Manager == "" && overwritten {
				out.Manager = fields.Manager
			}
		}
	}
	if out.Manager != "" {
		out.Known.Drift = fmt.Sprintf("changed by %q", out.Manager)
	}
	return out
}

// mayShowOrigin reports whether the user of the set may learn the origin of the object that a watch shows. The user may if it is the
// controller, or if a request with the rights of the user has read the same origin before.
func (e *Engine) mayShowOrigin(t Task) bool {
	return !e.Target.IsImpersonated() || t.Known.Claimant == t.Seen.Origin
}

// restores reports whether a write of the object reverts a change or deletion by another client: the desired state is the state that was
// applied last, and no rerun of a Job is requested.
func (t Task) restores() bool { return t.Same() && !t.Known.Rerun }

// isProven reports whether managedFields prove that the object is as an earlier process left it. In this case, the controller does not
// read the object. If an earlier process did not apply all fields, and the manifest may contain such a field, isProven returns false.
func (e *Executor) isProven(o order) bool {
	if !e.AllFieldsApplied && merge.MayBeUnapplied(o.manifest) {
		return false
	}
	object, err := merge.ForCreate(o.manifest, o.options)
	if err != nil {
		return false
	}
	first := o.Seen.FirstMetadata
	for _, each := range []struct{ want, have map[string]string }{
		{object.GetLabels(), first.Labels}, {object.GetAnnotations(), first.Annotations},
	} {
		for key, value := range each.want {
			if have, found := each.have[key]; !found || have != value {
				return false
			}
		}
	}
	if o.Kind.Group == "" && o.Kind.Kind == "Service" && keepsClusterIP(first.ManagedFields, object) {
		return false
	}
	tolerance := fields.Tolerance{ForceLabels: o.options.ForceLabels, ForceAnnotations: o.options.ForceAnnotations, Desired: object.Object}
	return fields.Covers(first.ManagedFields, object.Object) && fields.OnlyTolerated(first.ManagedFields, tolerance)
}

// keepsClusterIP reports whether a Service may still have a cluster IP that an earlier manifest contained, although the present manifest
// contains no cluster IP.
func keepsClusterIP(entries []metav1.ManagedFieldsEntry, object *unstructured.Unstructured) bool {
	wanted, _, _ := unstructured.NestedString(object.Object, "spec", "clusterIP")
	return wanted == "" && fields.Covers(entries, map[string]any{"spec": map[string]any{"clusterIP": corev1.ClusterIPNone}})
}

// Effect is the change that a task made in the target.
type Effect int

const (
	// Unchanged means that nothing was written.
	Unchanged Effect = iota
	// Created means that a new object was created.
	Created
	// Updated means that an object was changed to a new desired state.
	Updated
	// Repaired means that another client had changed or deleted the object, and the task reverted that.
	Repaired
	// Drifted means that another client had changed or deleted the object, and the task did not revert that.
	Drifted
)

// Outcome is the result of a task.
type Outcome struct {
	// Known is the new knowledge about the object. It replaces Task.Known.
	Known Knowledge
	Err   error
	// Effect is the change in the target. If Effect is Repaired or Drifted, Manager is the field manager that changed the object, if known.
	// If Effect is Repaired, Recreated is true if the object was missing, and Pause is the time until the next repair; zero if repairs do not
	// pause.
	Effect    Effect
	Recreated bool
	Manager   string
	Pause     time.Duration
	// Missing is true if the object existed before, does not exist now, and could not be created again.
	Missing bool
	// NewKind is true if the target now serves the kind and did not serve it when the set was read.
	NewKind bool
}

// outcome returns the outcome of a task from the change that it made. out contains the knowledge before the task.
func (e *Executor) outcome(ctx context.Context, o order, c change, out Outcome) Outcome {
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
		if o.Expires { // if no watch covers the Job, only this read shows whether it has finished
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

// yielded returns the outcome for an object that is left to the set to which it belongs.
func yielded(out Outcome, claimant string) Outcome {
	out.Known.Claimant = claimant
	out.Err = &ownership.ClaimedError{Claimant: claimant}
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

// written completes the outcome of a task whose write request succeeded.
func (e *Executor) written(o order, c change, out *Outcome) {
	switch {
	case c.live == nil && !o.restores():
		out.Effect = Created
	case c.live != nil && c.answer.GetResourceVersion() == c.live.GetResourceVersion():
	case c.live != nil && o.force:
		out.Effect = Updated
	default:
		out.Effect, out.Recreated = Repaired, c.live == nil
		if c.live != nil {
			out.Manager = c.manager()
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

// RecordEnd records in known that a Job is missing because it has finished and Kubernetes has deleted it.
func (e *Executor) RecordEnd(f Facts, known *Knowledge) {
	*known = Knowledge{Hash: f.Hash, Confirmed: true, CheckedAt: e.Now, Backoff: known.Backoff}
	e.Watcher.SetFinished(f.Kind.GroupKind(), f.Namespace, f.Key.Name, true)
}

// unapplied lists the fields of the manifest that a merge does not apply to the live object, which is nil if the object was just created.
func (o order) unapplied(live *unstructured.Unstructured) []string {
	if live == nil || o.Unlabelled {
		return nil
	}
	return merge.Unapplied(live, o.manifest)
}

// confirm records in the outcome that the object is in its desired state, apart from fields that are not applied.
func (e *Executor) confirm(o order, out *Outcome, fingerprint uint64, mark fields.OwnWrites, unapplied []string) {
	out.Known = Knowledge{
		Hash: o.Hash, Fingerprint: fingerprint, Confirmed: true, Mark: mark, CheckedAt: e.Now, Unapplied: unapplied, Backoff: out.Known.Backoff,
	}
	out.NewKind = !o.Mapped
	e.Watcher.DropFirstMetadata(o.Kind.GroupKind(), o.Namespace, o.Key.Name)
}

// IsMissing reports whether an object that could not be created does not exist. It reads the object live, because an object that only lost
// the managed-by label seems to be missing in the watch.
func (e *Executor) IsMissing(ctx context.Context, i *desired.Item) bool {
	return apply.IsGone(e.Target.InServedVersion(i.Kind, func(resource apply.Resource) error {
		_, err := e.Target.GetMetadata(ctx, resource, i.Namespace, i.Key.Name)
		return err // the caller only checks the type of the error
	}))
}

// replace deletes an object that cannot be updated. It always returns an error, which causes a retry; that retry creates the object again.
func (e *Executor) replace(ctx context.Context, o order, c change, name string) (deleted bool, err error) {
	options, err := replacementOptions(c.sent)
	if err == nil && c.live.GetDeletionTimestamp() == nil { // otherwise its finalizers are pending
		options.Preconditions = metav1.NewUIDPreconditions(string(c.live.GetUID()))
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
