package engine

import (
	"context"
	"fmt"
	"strings"

	"k8s.io/apimachinery/pkg/api/equality"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"sigs.k8s.io/structured-merge-diff/v6/fieldpath"

	resourcesv1alpha1 "github.com/espalier-dev/espalier/api/resources/v1alpha1"
	"github.com/espalier-dev/espalier/internal/apply"
	"github.com/espalier-dev/espalier/internal/apply/fields"
	"github.com/espalier-dev/espalier/internal/apply/merge"
	"github.com/espalier-dev/espalier/internal/managedresource/ownership"
	"github.com/espalier-dev/espalier/internal/managedresource/plan"
	"github.com/espalier-dev/espalier/internal/managedresource/status"
)

// attempts is how many times an object is read and written if each attempt ends with a conflict. After that, the work queue retries the
// set.
const attempts = 3

// change describes how a live object differed from its manifest, and the request that was sent to change it.
type change struct {
	// live is the object before the request; nil if it did not exist.
	live *unstructured.Unstructured
	// readErr is set if the object could not be read. refusal is set if no request was sent because of a fault of the manifest.
	readErr, refusal error
	// claim says whether the object belongs to another set. yielded is true if it was left to that set.
	claim   ownership.Claim
	yielded bool
	// ended is true if the object is a Job that does not exist because it has finished.
	ended bool
	// sent is the object in the request; nil if no request was necessary. changed are the paths at which live differs from it.
	sent    *unstructured.Unstructured
	changed []fieldpath.Path
	// answer is the response of the API server, err its error.
	answer metav1.Object
	err    error
	// replaceable is true if the object may be deleted and created again to resolve err. obstacle, if not nil, is why it must not be deleted:
	// the API server would refuse to create it again.
	replaceable bool
	obstacle    error
}

// manager returns the field manager that most likely caused the drift, "" if it is not known. Paths at which the API server only added
// defaults do not count as drift.
func (c change) manager() string {
	changed := c.changed
	if answer, isWhole := c.answer.(*unstructured.Unstructured); isWhole {
		changed = fields.Differing(changed, c.live.Object, answer.Object)
	}
	return fields.Attribute(c.live.GetManagedFields(), c.live.Object, changed)
}

// changesObject reports whether a request changes the object, according to the answer to a dry run of the request. If whole is true, it
// compares the whole object, because the paths in changed do not show the fields that another program wrote under the field manager of
// this controller.
func (c change) changesObject(whole bool) bool {
	answer, isWhole := c.answer.(*unstructured.Unstructured)
	if !isWhole {
		return false
	}
	if !whole {
		return len(fields.Differing(c.changed, c.live.Object, answer.Object)) > 0
	}
	before, after := c.live.DeepCopy(), answer.DeepCopy()
	for _, each := range []*unstructured.Unstructured{before, after} { // the API server sets these fields
		each.SetManagedFields(nil)
		each.SetResourceVersion("")
		each.SetGeneration(0)
	}
	return !equality.Semantic.DeepEqual(before.Object, after.Object)
}

// write creates the object if the task says that the object is missing, unless Kubernetes may have deleted the object together with an
// owner. In all other cases, and if the object exists nevertheless, write first reads the object. It then changes the fields that differ,
// or creates the object if it is missing and may be created. If another client wrote the object between the read and the write, write
// tries again.
func (e *Engine) write(ctx context.Context, o order) change {
	if o.Action == Create && !o.isOwned() {
		if c := o.create(ctx); !apierrors.IsAlreadyExists(c.err) {
			return e.concealed(ctx, o, c)
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

// concealed returns the change after an attempt to create an object. If the user of the set may neither create nor read the object, the
// change contains the error of a read, whether the object exists or not. Otherwise, the error would show the user whether a watch has
// received the object.
func (e *Engine) concealed(ctx context.Context, o order, c change) change {
	if !e.Target.IsImpersonated() || !apierrors.IsForbidden(c.err) {
		return c
	}
	if _, err := e.Target.Get(ctx, o.resource, o.manifest.GetNamespace(), o.Key.Name); apierrors.IsForbidden(err) {
		return change{readErr: err}
	}
	return c
}

func (o order) create(ctx context.Context) change {
	object, err := o.forCreate()
	if err != nil {
		return change{refusal: err}
	}
	c, end := change{sent: object}, func(bool) {}
	if o.recreate != nil {
		ref := resourcesv1alpha1.ObjectReference{ObjectReference: *o.Reference()}
		ref.Namespace = o.Namespace
		end = o.recreate(ref)
	}
	c.answer, c.err = o.writer.Create(ctx, o.resource, object)
	end(c.err == nil)
	return c
}

func (o order) forCreate() (*unstructured.Unstructured, error) {
	if o.Unlabelled {
		return merge.ForCreateIgnored(o.manifest), nil
	}
	return merge.ForCreate(o.manifest, o.options) // the condition contains this text
}

// compareAndWrite reads the object, and writes it if it differs.
func (e *Engine) compareAndWrite(ctx context.Context, o order) change {
	live, err := e.Target.Get(ctx, o.resource, o.manifest.GetNamespace(), o.Key.Name)
	if apierrors.IsNotFound(err) && o.ended() {
		return change{ended: true}
	}
	if apierrors.IsNotFound(err) {
		if owner := e.goneOwner(ctx, o); owner != "" {
			return change{refusal: &OrphanError{Object: status.Describe(o.Kind, o.Key.Namespace, o.Key.Name), Owner: owner}}
		}
		return o.create(ctx)
	}
	if err != nil {
		return change{readErr: err}
	}
	c := change{live: live}
	if o.needsClaim {
		c.claim = e.Owner.Claim(ctx, e.Sets, o.Key, live.GetAnnotations()[resourcesv1alpha1.OriginAnnotation])
		if c.yielded = o.Yields && c.claim == ownership.Claimed; c.yielded {
			return c
		}
	}
	c.sent, c.changed, c.refusal = e.merge(o, live)
	if c.sent == nil || c.refusal != nil {
		return c
	}
	c.answer, c.err = o.writer.Update(ctx, o.resource, c.sent)
	if c.replaceable = apierrors.IsInvalid(c.err) && o.isReplaceable(c.sent, c.err); c.replaceable {
		c.obstacle = e.obstacle(ctx, o, live)
	}
	return c
}

// obstacle returns why the API server would not create the object after a deletion of live. It returns nil if the API server would create
// it, if live is being deleted already, or if the manifest has the annotation DeleteUntested. Errors that say that the object exists, or
// that a quota is exceeded, are no obstacle: the API server checks these last.
func (e *Engine) obstacle(ctx context.Context, o order, live *unstructured.Unstructured) error {
	if live.GetDeletionTimestamp() != nil || isUntested(o.manifest) {
		return nil
	}
	successor, err := o.forCreate()
	if err != nil {
		return err // the condition contains this text
	}
	merge.DropAllocated(successor, live)
	_, err = apply.DryRun{Target: e.Target}.Create(ctx, o.resource, successor)
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
	// If managedFields contain no entry of Espalier, or an entry of Espalier that another program wrote, they do not show which fields other
	// managers added. In this case, the controller writes the object, and the API server compares: a write that changes nothing does not
	// change the resourceVersion.
	if !o.force && len(changed) == 0 && fields.WrittenByUs(live.GetManagedFields()) && !e.isOverwritten(o, live) {
		return nil, nil, nil
	}
	return merged, changed, nil
}

// isOverwritten reports whether another program has written to the object under the field manager of this controller or of
// gardener-resource-manager. Fields that the other program added look like defaults of the API server, and the values that it wrote may
// differ from the desired values. If the desired state has changed, the result is false.
func (e *Engine) isOverwritten(o order, live *unstructured.Unstructured) bool {
	if !o.Same() || o.Unlabelled {
		return false
	}
	if o.Known.Confirmed {
		return fields.OwnWritesOf(live.GetManagedFields()).ChangedSince(o.Known.Mark)
	}
	return fields.LastOwnWrite(live.GetManagedFields()).After(e.StatusTime)
}

// corrected returns the status entry of an object, corrected according to managedFields. The entry contains one value for each label and
// annotation. If a process changed such a value and died, the entry may not contain the value that the process wrote to the object last.
func corrected(live *unstructured.Unstructured, previous *resourcesv1alpha1.ObjectReference) *resourcesv1alpha1.ObjectReference {
	if previous == nil {
		return nil // this set did not write its labels and annotations
	}
	entry := previous.DeepCopy()
	correct := func(part string, recorded, values map[string]string) {
		for _, key := range fields.KeysOwnedOnlyByUs(live.GetManagedFields(), part) {
			if _, found := recorded[key]; found { // the API server may have added other keys as defaults
				recorded[key] = values[key]
			}
		}
	}
	correct("labels", entry.Labels, live.GetLabels())
	correct("annotations", entry.Annotations, live.GetAnnotations())
	return entry
}

// isUntested reports whether an annotation of the manifest allows to replace an object although no dry run succeeded.
func isUntested(manifest *unstructured.Unstructured) bool {
	return merge.Truthy(manifest.GetAnnotations()[resourcesv1alpha1.DeleteUntested])
}

const immutableField = "field is immutable when `immutable` is set"

// isReplaceable reports whether the object may be deleted and created again after the API server has rejected its update as invalid: its
// annotation DeleteOnInvalidUpdate allows that, or it is an immutable ConfigMap or Secret.
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

// OrphanError means that the controller does not create an object again: none of the owners in the manifest of the object exists, so
// Kubernetes would delete the object again.
type OrphanError struct {
	// Object and Owner are the names of the object and its owner, as users see them.
	Object, Owner string
}

func (e *OrphanError) Error() string {
	return fmt.Sprintf("object %q was deleted and is not created again: its owner %s does not exist, so Kubernetes would delete it again; "+
		"correct metadata.ownerReferences in the manifest", e.Object, e.Owner)
}

// isOwned reports whether Kubernetes may have deleted the object because an owner in its manifest was deleted.
func (o order) isOwned() bool { return o.Same() && len(o.manifest.GetOwnerReferences()) > 0 }

// goneOwner returns the name of an owner in the manifest if none of the owners exists, because Kubernetes would then delete the object. It
// returns "" if an owner exists or may exist.
func (e *Engine) goneOwner(ctx context.Context, o order) string {
	if !o.isOwned() {
		return ""
	}
	var gone string
	for _, owner := range o.manifest.GetOwnerReferences() {
		if !e.isGone(ctx, o, owner) {
			return ""
		}
		kind := schema.FromAPIVersionAndKind(owner.APIVersion, owner.Kind)
		gone = fmt.Sprintf("%q (uid %q)", status.Describe(kind, o.manifest.GetNamespace(), owner.Name), owner.UID)
	}
	return gone
}

// isGone reports whether an owner does not exist, or whether another object has the name of the owner now. In doubt, isGone returns false:
// for example, if the kind of the owner is not served, Kubernetes cannot know either whether the owner exists.
func (e *Engine) isGone(ctx context.Context, o order, owner metav1.OwnerReference) bool {
	resource, err := e.Target.Resource(schema.FromAPIVersionAndKind(owner.APIVersion, owner.Kind))
	if err != nil || resource.Namespaced && !o.resource.Namespaced || !apply.CanExist(o.manifest.GetNamespace(), owner.Name) {
		return false
	}
	live, err := e.Target.GetMetadata(ctx, resource, o.manifest.GetNamespace(), owner.Name)
	if err != nil {
		return apierrors.IsNotFound(err) && !apply.IsUnserved(err)
	}
	return live.UID != owner.UID
}
