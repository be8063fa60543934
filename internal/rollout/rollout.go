// Package rollout deploys lists of objects into a cluster, waits for the objects, and destroys them.
//
// It reads from the API server, not from a cache. It writes an object only if the write changes something. It sets the label of the
// program on the objects that the program creates or takes over. Destroy deletes only objects with that label. To wait, it watches
// metadata; it opens the watch only if the first check fails.
package rollout

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"path"
	"slices"
	"strings"
	"sync"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/util/retry"
	"sigs.k8s.io/controller-runtime/pkg/client"

	resourcesv1alpha1 "github.com/espalier-dev/espalier/api/resources/v1alpha1"
	"github.com/espalier-dev/espalier/internal/apply/merge"
	"github.com/espalier-dev/espalier/internal/flow"
	"github.com/espalier-dev/espalier/internal/health"
)

const (
	// reopenPause is the pause before a watch that has ended is opened again.
	reopenPause = time.Second
	// deletionProtected is a label on objects whose deletion must be confirmed. The deletion of objects of druidGroup and extensionsGroup must
	// be confirmed too.
	deletionProtected = "gardener.cloud/deletion-protected"
	druidGroup        = "druid.gardener.cloud"
	extensionsGroup   = "extensions.gardener.cloud"
	confirmDeletion   = "confirmation.gardener.cloud/deletion"
	// retainedBy is an annotation on an immutable Secret or ConfigMap that Deploy has retained: see Deploy. Its value is the kind and the
	// version of the object that has begun to refer to the Secret or ConfigMap again. Deploy sets the annotation only to change the Secret or
	// ConfigMap; no program reads it.
	retainedBy = "espalier.dev/retained-by"
)

// Cluster is a cluster into which a program deploys objects. All fields are required unless they say otherwise.
type Cluster struct {
	// Client reads and writes live.
	Client client.WithWatch
	// FieldManager is the field manager of all writes.
	FieldManager string
	// CreatedBy is the label that objects get when the program creates them.
	CreatedBy Label
	// Predecessor is the field manager of another program. This program takes over the objects of that program: an update adds the label
	// CreatedBy to them. If Predecessor is empty, there is no such program.
	Predecessor string
	// LimitedKinds are the kinds of which the program may create only the objects that its roles name. Nil: none.
	LimitedKinds []string
	// Foresees is true for a plan: its Client keeps all writes to itself, so no controller acts on them, and each wait ends at once.
	Foresees bool
	// Fence checks a live object. It returns an error if the object must not be updated, because the decisions of the program are outdated.
	// Deploy calls it between the read and the update of the object. The API server refuses the update if the object changes after the read.
	// If Fence is nil, Deploy checks nothing.
	Fence Fence
}

// Fence checks a live object before its update.
type Fence func(ctx context.Context, live *unstructured.Unstructured) error

// And returns a Fence that checks the object with f, which may be nil, and then with other.
func (f Fence) And(other Fence) Fence {
	if f == nil {
		return other
	}
	return func(ctx context.Context, live *unstructured.Unstructured) error {
		if err := f(ctx, live); err != nil {
			return err
		}
		return other(ctx, live)
	}
}

// Label is a label of objects.
type Label struct{ Key, Value string }

// Deploy creates and updates objects in their order. If an object has a resource version, it was made from the live object of that
// version. If the live object has changed since, the API server refuses the update with a conflict, which Deploy returns.
//
// An object may return to its former content. It may then refer again to an immutable Secret or ConfigMap that still exists from that
// time. In this case Deploy retains the Secret or ConfigMap.
func (c Cluster) Deploy(ctx context.Context, objects ...*unstructured.Unstructured) error {
	var existing []*unstructured.Unstructured
	for _, desired := range objects {
		before, after, err := c.deploy(ctx, desired)
		if err != nil {
			return fmt.Errorf("deploy %s: %w", describe(desired), err)
		}
		if after == nil {
			existing = append(existing, desired)
			continue
		}
		for _, each := range existing {
			if !refersTo(after, each) || before != nil && refersTo(before, each) {
				continue
			}
			if err := c.retain(ctx, each, after); err != nil {
				return fmt.Errorf("retain %s: %w", describe(each), err)
			}
		}
	}
	return nil
}

// retain changes a Secret or ConfigMap that the garbage collector may be about to delete, because no object has referred to it until now.
// The change prevents the deletion: the garbage collector deletes an object only if the object has not changed. If the Secret or ConfigMap
// is gone already, retain creates it again.
func (c Cluster) retain(ctx context.Context, desired, by *unstructured.Unstructured) error {
	desired = desired.DeepCopy()
	annotations := overlaid(desired.GetAnnotations(), map[string]string{retainedBy: by.GetKind() + "." + by.GetResourceVersion()})
	desired.SetAnnotations(annotations)
	return retry.OnError(retry.DefaultRetry, apierrors.IsNotFound, func() error {
		_, _, err := c.deploy(ctx, desired)
		return err
	})
}

// DeployTyped does the same as Deploy. The objects must have their apiVersion and kind.
func (c Cluster) DeployTyped(ctx context.Context, objects ...client.Object) error {
	untyped, err := Unstructured(objects...)
	if err != nil {
		return err
	}
	return c.Deploy(ctx, untyped...)
}

// deploy reads and writes again after a conflict, because the status of an object can change at any time. If desired has a resource
// version, deploy returns the conflict instead. The result before is the object before the write, nil if the object did not exist. The
// result after is the object after the write, nil if no write was necessary.
func (c Cluster) deploy(ctx context.Context, desired *unstructured.Unstructured) (before, after *unstructured.Unstructured, err error) {
	err = retry.OnError(retry.DefaultRetry, func(err error) bool {
		return apierrors.IsConflict(err) && desired.GetResourceVersion() == ""
	}, func() error {
		before, after, err = c.deployOnce(ctx, desired)
		return err
	})
	return before, after, err
}

func (c Cluster) deployOnce(ctx context.Context, desired *unstructured.Unstructured) (before, after *unstructured.Unstructured, err error) {
	live := &unstructured.Unstructured{}
	live.SetGroupVersionKind(desired.GroupVersionKind())
	err = c.Client.Get(ctx, client.ObjectKeyFromObject(desired), live)
	if apierrors.IsNotFound(err) {
		after = c.forCreation(desired)
		return nil, after, c.create(ctx, after)
	}
	if err != nil {
		return nil, nil, err
	}
	wanted := c.forUpdate(live, desired)
	if len(merge.Differences(live, wanted)) == 0 {
		return live, nil, nil
	}
	if c.Fence != nil {
		if err := c.Fence(ctx, live); err != nil {
			return nil, nil, err
		}
	}
	return live, wanted, c.Client.Update(ctx, wanted, client.FieldOwner(c.FieldManager))
}

// create creates an object. For LimitedKinds it uses a server-side apply, because an authorizer knows the name of a new object only with
// such a request. If another client has created the object in the meantime, a server-side apply fails only if that client has set fields
// to other values; the error is a conflict. For other kinds, create always fails in this case.
func (c Cluster) create(ctx context.Context, o *unstructured.Unstructured) error {
	if slices.Contains(c.LimitedKinds, o.GetKind()) {
		return c.Client.Apply(ctx, client.ApplyConfigurationFromUnstructured(o), client.FieldOwner(c.FieldManager))
	}
	return c.Client.Create(ctx, o, client.FieldOwner(c.FieldManager))
}

func describe(o client.Object) string {
	name := o.GetName()
	if o.GetNamespace() != "" {
		name = o.GetNamespace() + "/" + name
	}
	return o.GetObjectKind().GroupVersionKind().Kind + " " + name
}

// inspect returns the command that shows more about an object.
func inspect(o client.Object) string {
	command := "kubectl"
	if o.GetNamespace() != "" {
		command += " -n " + o.GetNamespace()
	}
	return command + " describe " + strings.ToLower(o.GetObjectKind().GroupVersionKind().Kind) + " " + o.GetName()
}

// UntilHealthy waits until deployed objects are healthy. The timeout applies to each object separately. If an object is being deleted, or
// another client has deleted it in the meantime, UntilHealthy creates the object again as soon as it is gone.
func (c Cluster) UntilHealthy(ctx context.Context, timeout time.Duration, objects ...*unstructured.Unstructured) error {
	for _, each := range objects {
		check := func(ctx context.Context) error { return c.ensureHealthy(ctx, each) }
		if err := c.Until(ctx, timeout, check, WatchObject(each)); err != nil {
			return err
		}
	}
	return nil
}

func (c Cluster) ensureHealthy(ctx context.Context, desired *unstructured.Unstructured) error {
	live := &unstructured.Unstructured{}
	live.SetGroupVersionKind(desired.GroupVersionKind())
	err := c.Client.Get(ctx, client.ObjectKeyFromObject(desired), live)
	if apierrors.IsNotFound(err) {
		live = c.forCreation(desired)
		err = c.create(ctx, live)
	}
	if err != nil {
		return fmt.Errorf("read or create %s: %w", describe(desired), err)
	}
	if live.GetDeletionTimestamp() != nil {
		return fmt.Errorf("%s is being deleted, and is created again when it is gone", describe(desired))
	}
	if verdict := health.Judge(live); verdict.Unhealthy != "" || verdict.Failed != "" {
		return fmt.Errorf("%s is not healthy: %s%s (see %s)", describe(desired), verdict.Unhealthy, verdict.Failed, inspect(desired))
	}
	return nil
}

// Watched selects the objects whose changes repeat a check.
type Watched struct {
	Kind    schema.GroupVersionKind
	Options []client.ListOption
}

// WatchObject returns a Watched for a single object.
func WatchObject(o client.Object) Watched {
	return Watched{Kind: o.GetObjectKind().GroupVersionKind(), Options: []client.ListOption{
		client.InNamespace(o.GetNamespace()), client.MatchingFields{"metadata.name": o.GetName()},
	}}
}

// Until waits until the function check returns nil. It calls check again when a watched object changes. If the timeout is 0, Until waits
// without a limit. If Foresees is true, Until returns nil at once and does not call check.
func (c Cluster) Until(ctx context.Context, timeout time.Duration, check func(context.Context) error, watched ...Watched) error {
	if c.Foresees || check(ctx) == nil {
		return nil
	}
	changes := &flow.Changes{}
	watching, stop := context.WithCancel(ctx)
	var watches sync.WaitGroup
	for _, each := range watched {
		watches.Go(func() { c.notify(watching, each, changes) })
	}
	defer func() { stop(); watches.Wait() }()
	return changes.Until(ctx, timeout, check)
}

// notify reports changes until the context ends. A watch that ends is opened again, which counts as a change.
func (c Cluster) notify(ctx context.Context, w Watched, changes *flow.Changes) {
	for ctx.Err() == nil {
		list := &metav1.PartialObjectMetadataList{}
		list.SetGroupVersionKind(w.Kind.GroupVersion().WithKind(w.Kind.Kind + "List"))
		watched, err := c.Client.Watch(ctx, list, w.Options...)
		changes.Notify()
		if err == nil {
			drain(ctx, watched.ResultChan(), changes.Notify)
			watched.Stop()
		}
		select {
		case <-ctx.Done():
		case <-time.After(reopenPause):
		}
	}
}

func drain[T any](ctx context.Context, events <-chan T, notify func()) {
	for {
		select {
		case <-ctx.Done():
			return
		case _, open := <-events:
			if !open {
				return
			}
			notify()
		}
	}
}

// Destroy deletes the given objects in their order, and then waits until they are gone. It skips objects that the program did not create.
func (c Cluster) Destroy(ctx context.Context, timeout time.Duration, objects ...*unstructured.Unstructured) error {
	var deleted []*unstructured.Unstructured
	for _, each := range objects {
		requested, err := c.Delete(ctx, each, c.IsOurs)
		if err != nil {
			return err
		}
		if requested {
			deleted = append(deleted, each)
		}
	}
	return c.UntilGone(ctx, timeout, deleted...)
}

// Delete requests the deletion of an object if the object satisfies a condition. Before the request, it confirms the deletion if webhooks
// demand a confirmation. It returns false if the object does not exist, or does not satisfy the condition. A Deployment is gone only when
// its Pods are gone.
func (c Cluster) Delete(ctx context.Context, o *unstructured.Unstructured, condition func(client.Object) bool) (bool, error) {
	live := MetadataOf(o)
	err := c.Client.Get(ctx, client.ObjectKeyFromObject(o), live)
	if IsGone(err) || err == nil && !condition(live) {
		return false, nil
	}
	if err != nil {
		return false, fmt.Errorf("read %s: %w", describe(o), err)
	}
	if live.DeletionTimestamp != nil {
		return true, nil
	}
	if isProtected(live) && live.Annotations[confirmDeletion] != "true" {
		if failure := c.Annotate(ctx, o, map[string]any{confirmDeletion: "true"}); failure != nil {
			return false, fmt.Errorf("confirm deletion: %w", failure)
		}
	}
	propagation := metav1.DeletePropagationBackground
	if o.GetKind() == "Deployment" {
		propagation = metav1.DeletePropagationForeground
	}
	uid := live.UID
	// If the object has finalizers, the response of the API server contains the object. A client for metadata cannot decode the response if
	// its scheme does not contain the kind.
	err = c.Client.Delete(ctx, o.DeepCopy(), client.PropagationPolicy(propagation), client.Preconditions{UID: &uid})
	if err != nil && !IsGone(err) {
		return false, fmt.Errorf("delete %s: %w", describe(o), err)
	}
	return true, nil
}

// DeleteAll deletes the selected objects of a kind. It does not read each object, because that needs a right of its own.
func (c Cluster) DeleteAll(ctx context.Context, kind schema.GroupVersionKind, selected ...client.ListOption) error {
	list := &metav1.PartialObjectMetadataList{}
	list.SetGroupVersionKind(kind.GroupVersion().WithKind(kind.Kind + "List"))
	if err := c.Client.List(ctx, list, selected...); err != nil {
		return fmt.Errorf("list objects of kind %s: %w", kind.Kind, err)
	}
	for i := range list.Items {
		o := Identity(kind, list.Items[i].Namespace, list.Items[i].Name)
		if err := c.Client.Delete(ctx, o, client.Preconditions{UID: &list.Items[i].UID}); client.IgnoreNotFound(err) != nil {
			return fmt.Errorf("delete %s: %w", describe(o), err)
		}
	}
	return nil
}

// isProtected reports whether webhooks deny the deletion of an object that does not confirm it.
func isProtected(o client.Object) bool {
	group := o.GetObjectKind().GroupVersionKind().Group
	return o.GetLabels()[deletionProtected] == "true" || group == druidGroup || group == extensionsGroup
}

// UntilGone waits until objects do not exist. The timeout is for each of them.
func (c Cluster) UntilGone(ctx context.Context, timeout time.Duration, objects ...*unstructured.Unstructured) error {
	for _, o := range objects {
		check := func(ctx context.Context) error {
			err := c.Client.Get(ctx, client.ObjectKeyFromObject(o), MetadataOf(o))
			if err == nil {
				return fmt.Errorf("%s still exists", describe(o))
			}
			if !IsGone(err) {
				return fmt.Errorf("read %s: %w", describe(o), err)
			}
			return nil
		}
		if err := c.Until(ctx, timeout, check, WatchObject(o)); err != nil {
			return err
		}
	}
	return nil
}

// Annotate sets annotations of an object, and removes the annotations whose value is nil. It reads nothing.
func (c Cluster) Annotate(ctx context.Context, o *unstructured.Unstructured, annotations map[string]any) error {
	patch, err := json.Marshal(map[string]any{"metadata": map[string]any{"annotations": annotations}})
	if err != nil {
		return fmt.Errorf("encode annotations: %w", err)
	}
	err = c.Client.Patch(ctx, o.DeepCopy(), client.RawPatch(types.MergePatchType, patch), client.FieldOwner(c.FieldManager))
	if err != nil {
		return fmt.Errorf("annotate %s: %w", describe(o), err)
	}
	return nil
}

// MetadataOf returns an empty object into which the metadata of an object of the same kind can be read. It has no name.
func MetadataOf(o *unstructured.Unstructured) *metav1.PartialObjectMetadata {
	live := &metav1.PartialObjectMetadata{}
	live.SetGroupVersionKind(o.GroupVersionKind())
	return live
}

// IsGone reports whether an error means that an object does not exist or that its kind is not served.
func IsGone(err error) bool {
	return apierrors.IsNotFound(err) || meta.IsNoMatchError(err)
}

// Find reads an object into a value. It returns nil if the object does not exist, or if its kind is not served.
func Find[T client.Object](ctx context.Context, c client.Reader, namespace, name string, into T) (T, error) {
	found, err := FindServed(ctx, c, namespace, name, into)
	if meta.IsNoMatchError(err) {
		var none T
		return none, nil
	}
	return found, err
}

// FindServed does the same as Find, but fails if the kind of the object is not served.
func FindServed[T client.Object](ctx context.Context, c client.Reader, namespace, name string, into T) (T, error) {
	var none T
	err := c.Get(ctx, client.ObjectKey{Namespace: namespace, Name: name}, into)
	if apierrors.IsNotFound(err) {
		return none, nil
	}
	if err != nil {
		return none, fmt.Errorf("read %T %s: %w", into, path.Join(namespace, name), err)
	}
	return into, nil
}

// ErrInUse is the error for a definition that is not deleted because objects of its kind exist.
var ErrInUse = errors.New("objects of this kind exist")

// DeleteDefinition requests the deletion of a CustomResourceDefinition that satisfies a condition. If the argument counts is true and
// objects of the defined kind exist, it returns an error instead: the deletion of the definition would delete these objects. It returns
// false if the definition does not exist, or does not satisfy the condition.
func (c Cluster) DeleteDefinition(
	ctx context.Context, definition *unstructured.Unstructured, condition func(client.Object) bool, counts bool,
) (bool, error) {
	live := definition.DeepCopy()
	err := c.Client.Get(ctx, client.ObjectKeyFromObject(definition), live)
	if IsGone(err) || err == nil && !condition(live) {
		return false, nil
	}
	if err != nil {
		return false, fmt.Errorf("read %s: %w", describe(definition), err)
	}
	if counts {
		if err := c.CheckUnused(ctx, live); err != nil {
			return false, err
		}
	}
	return c.Delete(ctx, live, condition)
}

// HasAny reports whether a cluster has an object of a kind. It has none of a kind that is not served.
func HasAny(ctx context.Context, c client.Reader, kind schema.GroupVersionKind) (bool, error) {
	found, err := listOne(ctx, c, kind)
	if err != nil && !IsGone(err) {
		return false, err
	}
	return len(found) > 0, nil
}

// CheckServed returns an error that satisfies IsGone if a cluster does not serve a kind. It sends a request to the API server, because the
// mapper of a client still knows a kind whose definition was deleted. It returns other errors of this request, too.
func CheckServed(ctx context.Context, c client.Reader, kind schema.GroupVersionKind) error {
	_, err := listOne(ctx, c, kind)
	return err
}

// listOne returns at most one object of a kind.
func listOne(ctx context.Context, c client.Reader, kind schema.GroupVersionKind) ([]metav1.PartialObjectMetadata, error) {
	list := &metav1.PartialObjectMetadataList{}
	list.SetGroupVersionKind(kind.GroupVersion().WithKind(kind.Kind + "List"))
	if err := c.List(ctx, list, client.Limit(1)); err != nil {
		return nil, fmt.Errorf("list objects of kind %s: %w", kind.Kind, err)
	}
	return list.Items, nil
}

// IsFree reports whether a ManagedResource may contain an object. The argument set is the namespace and name of the ManagedResource. It
// may contain the object if the object does not exist, if the kind of the object is not served, or if the origin annotation of the object
// names this ManagedResource.
func IsFree(ctx context.Context, c client.Reader, o *unstructured.Unstructured, set client.ObjectKey) (bool, error) {
	live := MetadataOf(o)
	err := c.Get(ctx, client.ObjectKeyFromObject(o), live)
	switch {
	case IsGone(err):
		return true, nil
	case err != nil:
		return false, fmt.Errorf("read %s: %w", describe(o), err)
	}
	origin, err := resourcesv1alpha1.ParseOrigin(live.Annotations[resourcesv1alpha1.OriginAnnotation])
	return err == nil && origin.Namespace == set.Namespace && origin.Name == set.Name, nil
}

// CheckUnused returns an error that wraps ErrInUse and names an object if objects of the kind of a definition exist.
func (c Cluster) CheckUnused(ctx context.Context, definition *unstructured.Unstructured) error {
	group, _, _ := unstructured.NestedString(definition.Object, "spec", "group")
	kind, _, _ := unstructured.NestedString(definition.Object, "spec", "names", "kind")
	versions, _, _ := unstructured.NestedSlice(definition.Object, "spec", "versions")
	for _, each := range versions {
		version, _ := each.(map[string]any)
		if served, _, _ := unstructured.NestedBool(version, "served"); !served {
			continue
		}
		name, _, _ := unstructured.NestedString(version, "name")
		found, err := listOne(ctx, c.Client, schema.GroupVersionKind{Group: group, Version: name, Kind: kind})
		if err != nil && !IsGone(err) {
			return err
		}
		if len(found) > 0 {
			return fmt.Errorf("%w: %s, for example %s", ErrInUse, definition.GetName(), client.ObjectKeyFromObject(&found[0]))
		}
		return nil
	}
	return nil
}

// Unconditionally is the condition that all objects satisfy.
func Unconditionally(client.Object) bool { return true }

// HasOwn reports whether an object exists and the program created it.
func (c Cluster) HasOwn(ctx context.Context, o *unstructured.Unstructured) (bool, error) {
	live := MetadataOf(o)
	if err := c.Client.Get(ctx, client.ObjectKeyFromObject(o), live); err != nil {
		if IsGone(err) {
			return false, nil
		}
		return false, fmt.Errorf("read %s: %w", describe(o), err)
	}
	return c.IsOurs(live), nil
}
