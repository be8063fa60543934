package engine

import (
	"context"
	"fmt"
	"strings"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"sigs.k8s.io/structured-merge-diff/v6/fieldpath"

	resourcesv1alpha1 "github.com/espalier-dev/espalier/api/resources/v1alpha1"
	"github.com/espalier-dev/espalier/internal/apply"
	"github.com/espalier-dev/espalier/internal/apply/fields"
	"github.com/espalier-dev/espalier/internal/apply/merge"
	"github.com/espalier-dev/espalier/internal/managedresource/ownership"
	"github.com/espalier-dev/espalier/internal/managedresource/plan"
	"github.com/espalier-dev/espalier/internal/managedresource/status"
)

// attempts is how often an object is read and written again after a conflict before the queue takes over.
const attempts = 3

// order is a task with everything that its requests need.
type order struct {
	Task
	resource apply.Resource
	manifest *unstructured.Unstructured
	options  merge.Options
	// force writes even if nothing seems to differ: fields that are no longer desired cannot be distinguished from defaults.
	force bool
}

func (e *Engine) order(ctx context.Context, t Task, resource apply.Resource) (order, error) {
	manifest, err := e.Manifest(ctx, t.Item)
	if err != nil {
		return order{}, err
	}
	o := order{Task: t, resource: resource, manifest: manifest, options: e.Settings}
	o.force = t.Action == Write || t.Action == Create && !t.Same()
	o.options.Previous = t.Previous
	if o.options.ReplicasPath, err = e.replicasPath(ctx, t.Kind); err != nil {
		return order{}, fmt.Errorf("error during apply of object %q: %w", status.Describe(t.Kind, t.Key.Namespace, t.Key.Name), err)
	}
	if scalable(t.Kind, o.options.ReplicasPath) {
		scaling := e.Autoscalers.Of(e.equivalents(t.Kind.GroupKind()), t.Key.Namespace, t.Key.Name)
		o.options.PreserveReplicas, o.options.PreserveResources = scaling.Replicas, scaling.Resources
	}
	return o, nil
}

// change is how an object differed from its manifest, and the request that was sent to change it.
type change struct {
	// live is the object before; nil if it did not exist.
	live *unstructured.Unstructured
	// readErr means that the object could not be read, refusal that no request was sent because of a fault of the manifest.
	readErr, refusal error
	// claim shows whether another set holds the object; yielded is true if the object was left to that set.
	claim   ownership.Claim
	yielded bool
	// ended is true if the object does not exist because it has finished.
	ended bool
	// sent is the object in the request; nil if none was necessary. Changed are the paths at which live differs from it.
	sent    *unstructured.Unstructured
	changed []fieldpath.Path
	// answer is the response of the API server, err its error.
	answer metav1.Object
	err    error
	// replaceable is true if the object may be deleted and created again to resolve err. Obstacle is why it must not be deleted: the API
	// server would not create its successor.
	replaceable bool
	obstacle    error
}

// write creates the object if the task says that it is missing. Otherwise, or if it exists, write reads it and changes what differs. If
// another client wrote in between, it tries again.
func (e *Engine) write(ctx context.Context, o order) change {
	if o.Action == Create && !o.isOwned() {
		if c := e.create(ctx, o); !apierrors.IsAlreadyExists(c.err) {
			return c
		}
	}
	var c change
	for range attempts {
		c = e.compareAndWrite(ctx, o)
		if !apierrors.IsConflict(c.err) && !apierrors.IsAlreadyExists(c.err) {
			break
		}
	}
	return c
}

// restores reports whether the creation of the object repairs its deletion by another client.
func (t Task) restores() bool { return t.Same() && !t.Known.Rerun }

func (e *Engine) create(ctx context.Context, o order) change {
	object, err := o.forCreate()
	if err != nil {
		return change{refusal: err}
	}
	c := change{sent: object}
	c.answer, c.err = e.sendCreate(ctx, o, object)
	return c
}

func (o order) forCreate() (*unstructured.Unstructured, error) {
	if o.Unlabelled {
		return merge.ForCreateIgnored(o.manifest), nil
	}
	return merge.ForCreate(o.manifest, o.options) // the condition contains this text
}

func (e *Engine) sendCreate(ctx context.Context, o order, object *unstructured.Unstructured) (metav1.Object, error) {
	if e.DryRun || !o.restores() {
		return e.Target.Create(ctx, o.resource, object, e.DryRun)
	}
	ref := resourcesv1alpha1.ObjectReference{ObjectReference: *o.Reference()}
	ref.Namespace = o.Namespace
	done := e.Recreate(ref)
	stored, err := e.Target.Create(ctx, o.resource, object, false)
	done(err == nil)
	return stored, err
}

// compareAndWrite reads the object and writes what differs.
func (e *Engine) compareAndWrite(ctx context.Context, o order) change {
	live, err := e.Target.Get(ctx, o.resource, o.manifest.GetNamespace(), o.Key.Name)
	if apierrors.IsNotFound(err) && o.ended() {
		return change{ended: true}
	}
	if apierrors.IsNotFound(err) {
		if owner := e.goneOwner(ctx, o); owner != "" {
			return change{refusal: &OrphanError{Object: status.Describe(o.Kind, o.Key.Namespace, o.Key.Name), Owner: owner}}
		}
		return e.create(ctx, o)
	}
	if err != nil {
		return change{readErr: err}
	}
	c := change{live: live}
	if o.Yields || e.DryRun { // a plan shows which set holds the object
		c.claim = e.Owner.Claim(ctx, e.Sets, o.Key, live.GetAnnotations()[resourcesv1alpha1.OriginAnnotation])
		if c.yielded = o.Yields && c.claim == ownership.Claimed; c.yielded {
			return c
		}
	}
	c.sent, c.changed, c.refusal = e.merge(o, live)
	if c.sent == nil || c.refusal != nil {
		return c
	}
	c.answer, c.err = e.Target.Update(ctx, o.resource, c.sent, e.DryRun)
	if c.replaceable = apierrors.IsInvalid(c.err) && o.isReplaceable(c.sent, c.err); c.replaceable {
		c.obstacle = e.obstacle(ctx, o, live)
	}
	return c
}

// obstacle returns why the API server would not create the object after a deletion of live. It returns nil if the API server would create
// it, or if the user wants no dry run. The API server checks last whether an object of that name exists.
func (e *Engine) obstacle(ctx context.Context, o order, live *unstructured.Unstructured) error {
	if live.GetDeletionTimestamp() != nil || isUntested(o.manifest) {
		return nil
	}
	successor, err := o.forCreate()
	if err != nil {
		return err // the condition contains this text
	}
	merge.DropAllocated(successor, live)
	_, err = e.Target.Create(ctx, o.resource, successor, true)
	if err == nil || apierrors.IsAlreadyExists(err) || plan.IsQuotaExceeded(err) {
		return nil
	}
	return err // the caller adds the name of the object
}

// merge returns the object to write, nil if no write is needed, and the paths at which live differs from it.
func (e *Engine) merge(o order, live *unstructured.Unstructured) (*unstructured.Unstructured, []fieldpath.Path, error) {
	if o.Unlabelled {
		merged, changed := merge.MergeIgnored(live)
		if !changed {
			merged = nil
		}
		return merged, nil, nil
	}
	options := o.options
	options.Previous = corrected(live, options.Previous)
	merged, err := merge.Merge(live, o.manifest, options)
	if err != nil {
		return nil, nil, err // the condition contains this text
	}
	changed := append(merge.Differences(live, merged), fields.Additions(live.GetManagedFields(), live.Object, merged.Object)...)
	// Without an entry of ours in managedFields, or with one that another program wrote, it is unknown which fields other managers added.
	// Then the API server compares: a write that changes nothing does not change the resourceVersion.
	if !o.force && len(changed) == 0 && fields.WrittenByUs(live.GetManagedFields()) && !e.isOverwritten(o, live) {
		return nil, nil, nil
	}
	return merged, changed, nil
}

// isOverwritten reports whether another program has written to the object under the field manager of this controller or of
// gardener-resource-manager. Fields that such a write added look like defaults of the API server, and its values may not be the desired
// ones.
func (e *Engine) isOverwritten(o order, live *unstructured.Unstructured) bool {
	if !o.Same() || o.Unlabelled {
		return false
	}
	if o.Known.Confirmed {
		return fields.OwnWritesOf(live.GetManagedFields()).ChangedSince(o.Known.Mark)
	}
	return fields.LastOwnWrite(live.GetManagedFields()).After(e.StatusTime)
}

// corrected returns the status entry of an object, corrected by what managedFields prove. The status contains one value for each label and
// annotation. If a process died while it changed one, that may not be the value that it wrote last.
func corrected(live *unstructured.Unstructured, previous *resourcesv1alpha1.ObjectReference) *resourcesv1alpha1.ObjectReference {
	if previous == nil {
		return nil // it was not this set that wrote them
	}
	entry := previous.DeepCopy()
	correct := func(part string, recorded, values map[string]string) {
		for _, key := range fields.KeysOwnedOnlyByUs(live.GetManagedFields(), part) {
			if _, found := recorded[key]; found { // the API server may have added others as defaults
				recorded[key] = values[key]
			}
		}
	}
	correct("labels", entry.Labels, live.GetLabels())
	correct("annotations", entry.Annotations, live.GetAnnotations())
	return entry
}

// isUntested reports whether the user wants an object to be replaced although no dry run succeeded.
func isUntested(manifest *unstructured.Unstructured) bool {
	return merge.Truthy(manifest.GetAnnotations()[resourcesv1alpha1.DeleteUntested])
}

const immutableField = "field is immutable when `immutable` is set"

// isReplaceable reports whether the object may be deleted and created again after the API server has rejected its update as invalid.
func (o order) isReplaceable(merged *unstructured.Unstructured, err error) bool {
	if merge.Truthy(merged.GetAnnotations()[resourcesv1alpha1.DeleteOnInvalidUpdate]) {
		return true
	}
	if o.Kind.Group != "" || o.Kind.Version != "v1" || o.Kind.Kind != "ConfigMap" && o.Kind.Kind != "Secret" {
		return false
	}
	for _, cause := range status.Answer(err).Details.Causes {
		if cause.Type == metav1.CauseType("FieldValueForbidden") {
			return strings.Contains(cause.Message, immutableField)
		}
	}
	return false
}

// isProven reports whether managedFields prove that the object is as an earlier process left it. Then it needs no read. If an earlier
// process did not apply a field, a read shows whether it was a field of this object.
func (e *Engine) isProven(o order) bool {
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

// keepsClusterIP reports whether a Service may have a cluster IP that an earlier manifest contained, and the present one does not contain.
func keepsClusterIP(entries []metav1.ManagedFieldsEntry, object *unstructured.Unstructured) bool {
	wanted, _, _ := unstructured.NestedString(object.Object, "spec", "clusterIP")
	return wanted == "" && fields.Covers(entries, map[string]any{"spec": map[string]any{"clusterIP": corev1.ClusterIPNone}})
}
