package plan

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"reflect"
	"slices"
	"strconv"
	"strings"
	"sync"

	jsonpatch "github.com/evanphx/json-patch/v5"
	"k8s.io/apimachinery/pkg/api/equality"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/fields"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/watch"
	"k8s.io/utils/clock"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

// id identifies an object of a cluster.
type id struct {
	schema.GroupKind
	namespace, name string
}

// String returns the text by which objects are sorted.
func (i id) String() string { return i.Kind + "/" + i.namespace + "/" + i.name + "/" + i.Group }

// entry is an object that an operation would write.
type entry struct {
	kind schema.GroupVersionKind
	// live is the object in the cluster; nil if it does not exist.
	live *unstructured.Unstructured
	// states are the object after each write; nil: it was deleted. There is at least one.
	states []state
}

// state is an object after a task wrote it; nil if the task deleted it. The task is empty for objects that a plan begins with.
type state struct {
	object *unstructured.Unstructured
	task   string
}

func (e *entry) last() *unstructured.Unstructured { return e.states[len(e.states)-1].object }

// overlay is a client that reads a cluster and keeps all writes to itself. Later reads find these writes. It sends no write to the
// cluster, not even a dry run, so that rights to read are enough. The client of package fake in controller-runtime cannot read objects of
// a cluster, and dry runs of the API server forget earlier writes.
//
// Unlike an API server, overlay neither sets defaults nor calls webhooks, and it removes a deleted object at once, even if the object has
// finalizers.
type overlay struct {
	client.WithWatch                    // reads the cluster
	clock            clock.PassiveClock // gives the times of creation

	mu      sync.Mutex // guards the fields below
	objects map[id]*entry
	// read are the objects that were read by their names, with more than their metadata: deletions read only metadata.
	read    map[id]bool
	version int
	// task is the name of the current task.
	task string
}

func newOverlay(live client.WithWatch, now clock.PassiveClock) *overlay {
	return &overlay{WithWatch: live, clock: now, objects: map[id]*entry{}, read: map[id]bool{}}
}

var errUnplanned = errors.New("a plan cannot foresee this kind of request")

// during runs the work of a task. Tasks run one after the other, so that each write belongs to one task.
func (o *overlay) during(task string, work func() error) error {
	o.setTask(task)
	defer o.setTask("")
	return work()
}

func (o *overlay) setTask(task string) {
	o.mu.Lock()
	defer o.mu.Unlock()
	o.task = task
}

// put stores an object that the operation finds, as if the cluster had it.
func (o *overlay) put(object client.Object) error {
	u, key, err := o.content(object)
	if err != nil {
		return err
	}
	o.objects[key] = &entry{kind: u.GroupVersionKind(), live: u, states: []state{{object: u}}}
	return nil
}

// entries returns the objects that were written, in a fixed order.
func (o *overlay) entries() []*entry {
	keys := slices.SortedFunc(maps.Keys(o.objects), func(a, b id) int { return strings.Compare(a.String(), b.String()) })
	all := make([]*entry, len(keys))
	for i, key := range keys {
		all[i] = o.objects[key]
	}
	return all
}

// content returns an unstructured copy of an object, and its id.
func (o *overlay) content(object client.Object) (*unstructured.Unstructured, id, error) {
	kind, err := o.GroupVersionKindFor(object)
	if err != nil {
		return nil, id{}, err
	}
	content, err := runtime.DefaultUnstructuredConverter.ToUnstructured(object)
	if err != nil {
		return nil, id{}, fmt.Errorf("convert %s %s: %w", kind.Kind, object.GetName(), err)
	}
	u := &unstructured.Unstructured{Object: runtime.DeepCopyJSON(content)}
	u.SetGroupVersionKind(kind)
	return u, id{kind.GroupKind(), object.GetNamespace(), object.GetName()}, nil
}

// assign copies an unstructured object into an object of any type.
func assign(from *unstructured.Unstructured, to client.Object) error {
	if u, isGeneral := to.(*unstructured.Unstructured); isGeneral {
		u.Object = runtime.DeepCopyJSON(from.Object)
		return nil
	}
	reflect.ValueOf(to).Elem().SetZero()
	if err := runtime.DefaultUnstructuredConverter.FromUnstructured(from.DeepCopy().Object, to); err != nil {
		return fmt.Errorf("convert %s %s: %w", from.GetKind(), from.GetName(), err)
	}
	return nil
}

func notFound(key id) error {
	return apierrors.NewNotFound(schema.GroupResource{Group: key.Group, Resource: key.Kind}, key.name)
}

// defines reports whether the operation would create the definition of a kind.
func (o *overlay) defines(kind schema.GroupKind) bool {
	for key, each := range o.objects {
		if key.Kind != "CustomResourceDefinition" || each.last() == nil {
			continue
		}
		group, _, _ := unstructured.NestedString(each.last().Object, "spec", "group")
		name, _, _ := unstructured.NestedString(each.last().Object, "spec", "names", "kind")
		if group == kind.Group && name == kind.Kind {
			return true
		}
	}
	return false
}

// Get implements client.Reader.
func (o *overlay) Get(ctx context.Context, key client.ObjectKey, object client.Object, options ...client.GetOption) error {
	o.mu.Lock()
	defer o.mu.Unlock()
	kind, err := o.GroupVersionKindFor(object)
	if err != nil {
		return err
	}
	known := id{kind.GroupKind(), key.Namespace, key.Name}
	if _, onlyMetadata := object.(*metav1.PartialObjectMetadata); !onlyMetadata {
		o.read[known] = true
	}
	if written, found := o.objects[known]; found {
		if written.last() == nil {
			return notFound(known)
		}
		return assign(written.last(), object)
	}
	err = o.WithWatch.Get(ctx, key, object, options...)
	if meta.IsNoMatchError(err) && o.defines(kind.GroupKind()) {
		return notFound(known)
	}
	return err
}

// List implements client.Reader.
func (o *overlay) List(ctx context.Context, list client.ObjectList, options ...client.ListOption) error {
	o.mu.Lock()
	defer o.mu.Unlock()
	kind, err := o.GroupVersionKindFor(list)
	if err != nil {
		return err
	}
	kind.Kind = strings.TrimSuffix(kind.Kind, "List")
	err = o.WithWatch.List(ctx, list, options...)
	if err != nil && (!meta.IsNoMatchError(err) || !o.defines(kind.GroupKind())) {
		return err
	}
	selected := &client.ListOptions{}
	selected.ApplyOptions(options)
	pointer, err := meta.GetItemsPtr(list)
	if err != nil {
		return fmt.Errorf("read list: %w", err)
	}
	items := reflect.ValueOf(pointer).Elem()
	merged := reflect.MakeSlice(items.Type(), 0, items.Len())
	for i := range items.Len() {
		item := items.Index(i).Addr().Interface().(client.Object) //nolint:errcheck // the items of lists are objects
		if _, written := o.objects[id{kind.GroupKind(), item.GetNamespace(), item.GetName()}]; !written {
			merged = reflect.Append(merged, items.Index(i))
		}
	}
	for _, each := range o.entries() {
		if each.kind.GroupKind() != kind.GroupKind() || each.last() == nil || !matches(each.last(), selected) {
			continue
		}
		item := reflect.New(items.Type().Elem())
		if err := assign(each.last(), item.Interface().(client.Object)); err != nil { //nolint:errcheck // the items of lists are objects
			return err
		}
		merged = reflect.Append(merged, item.Elem())
	}
	items.Set(merged)
	return nil
}

func matches(object client.Object, selected *client.ListOptions) bool {
	named := fields.Set{"metadata.name": object.GetName(), "metadata.namespace": object.GetNamespace()}
	return (selected.Namespace == "" || selected.Namespace == object.GetNamespace()) &&
		(selected.LabelSelector == nil || selected.LabelSelector.Matches(labels.Set(object.GetLabels()))) &&
		(selected.FieldSelector == nil || selected.FieldSelector.Matches(named))
}

// Watch implements client.WithWatch: nothing changes while a plan is made.
func (*overlay) Watch(context.Context, client.ObjectList, ...client.ListOption) (watch.Interface, error) {
	return watch.NewFake(), nil
}

// current returns an object as the operation finds it; nil if it does not exist.
func (o *overlay) current(ctx context.Context, key id, kind schema.GroupVersionKind) (*unstructured.Unstructured, error) {
	if written, found := o.objects[key]; found {
		return written.last(), nil
	}
	live := &unstructured.Unstructured{}
	live.SetGroupVersionKind(kind)
	err := o.WithWatch.Get(ctx, client.ObjectKey{Namespace: key.namespace, Name: key.name}, live)
	if apierrors.IsNotFound(err) || meta.IsNoMatchError(err) {
		return nil, nil
	}
	return live, err
}

// record stores the result of a write; nil: the object is deleted.
func (o *overlay) record(key id, kind schema.GroupVersionKind, before, after *unstructured.Unstructured) {
	written, found := o.objects[key]
	if !found {
		written = &entry{kind: kind, live: before}
		o.objects[key] = written
	}
	if after != nil {
		o.version++
		after.SetResourceVersion("planned-" + strconv.Itoa(o.version))
	}
	written.states = append(written.states, state{after, o.task})
}

// Create implements client.Writer.
func (o *overlay) Create(ctx context.Context, object client.Object, _ ...client.CreateOption) error {
	o.mu.Lock()
	defer o.mu.Unlock()
	u, key, err := o.content(object)
	if err != nil {
		return err
	}
	before, err := o.current(ctx, key, u.GroupVersionKind())
	if err != nil {
		return err
	}
	if before != nil {
		return apierrors.NewAlreadyExists(schema.GroupResource{Group: key.Group, Resource: key.Kind}, key.name)
	}
	return o.create(key, u, object)
}

func (o *overlay) create(key id, u *unstructured.Unstructured, object client.Object) error {
	u.SetUID(types.UID(fmt.Sprintf("planned-%d", o.version)))
	u.SetGeneration(1)
	u.SetCreationTimestamp(metav1.NewTime(o.clock.Now()))
	o.record(key, u.GroupVersionKind(), nil, u)
	return assign(u, object)
}

// Update implements client.Writer.
func (o *overlay) Update(ctx context.Context, object client.Object, _ ...client.UpdateOption) error {
	return o.change(ctx, object, func(current *unstructured.Unstructured) (*unstructured.Unstructured, error) {
		next, _, err := o.content(object)
		if err == nil {
			err = keep(current, next, "status")
		}
		return next, err
	})
}

// Patch implements client.Writer.
func (o *overlay) Patch(ctx context.Context, object client.Object, patch client.Patch, _ ...client.PatchOption) error {
	return o.change(ctx, object, func(current *unstructured.Unstructured) (*unstructured.Unstructured, error) {
		next, err := patched(current, object, patch)
		if err == nil {
			err = keep(current, next, "status")
		}
		return next, err
	})
}

// patched returns an object with a merge patch.
func patched(current *unstructured.Unstructured, object client.Object, patch client.Patch) (*unstructured.Unstructured, error) {
	if patch.Type() != types.MergePatchType {
		return nil, fmt.Errorf("patch of type %s: %w", patch.Type(), errUnplanned)
	}
	data, err := patch.Data(object)
	if err != nil {
		return nil, fmt.Errorf("compute patch: %w", err)
	}
	text, err := json.Marshal(current.Object)
	if err != nil {
		return nil, fmt.Errorf("encode object: %w", err)
	}
	merged, err := jsonpatch.MergePatch(text, data)
	if err != nil {
		return nil, fmt.Errorf("apply patch: %w", err)
	}
	next := &unstructured.Unstructured{}
	err = next.UnmarshalJSON(merged)
	return next, err
}

// keep gives next the value of a field in current, or removes the field if current does not have it.
func keep(current, next *unstructured.Unstructured, field string) error {
	value, found, err := unstructured.NestedFieldCopy(current.Object, field)
	if err != nil || !found {
		delete(next.Object, field)
		return err
	}
	next.Object[field] = value
	return nil
}

// change stores an object that a function changes. Like an API server, it refuses an object with another resource version, and stores
// nothing if the object does not change.
func (o *overlay) change(
	ctx context.Context, object client.Object, change func(current *unstructured.Unstructured) (*unstructured.Unstructured, error),
) error {
	o.mu.Lock()
	defer o.mu.Unlock()
	_, key, err := o.content(object)
	if err != nil {
		return err
	}
	kind, err := o.GroupVersionKindFor(object)
	if err != nil {
		return err
	}
	current, err := o.current(ctx, key, kind)
	if err != nil {
		return err
	}
	if current == nil {
		return notFound(key)
	}
	next, err := change(current)
	if err != nil {
		return err
	}
	if version := next.GetResourceVersion(); version != "" && version != current.GetResourceVersion() {
		return apierrors.NewConflict(schema.GroupResource{Group: key.Group, Resource: key.Kind}, key.name, errors.New("the object has changed"))
	}
	next.SetResourceVersion(current.GetResourceVersion())
	if equality.Semantic.DeepEqual(current.Object, next.Object) {
		return assign(current, object)
	}
	if !equality.Semantic.DeepEqual(current.Object["spec"], next.Object["spec"]) {
		next.SetGeneration(current.GetGeneration() + 1)
	}
	o.record(key, kind, current, next)
	return assign(next, object)
}

// Apply implements client.Writer.
func (o *overlay) Apply(ctx context.Context, configuration runtime.ApplyConfiguration, _ ...client.ApplyOption) error {
	text, err := json.Marshal(configuration)
	if err != nil {
		return fmt.Errorf("encode object: %w", err)
	}
	applied := &unstructured.Unstructured{}
	if err = applied.UnmarshalJSON(text); err != nil {
		return fmt.Errorf("decode object: %w", err)
	}
	o.mu.Lock()
	defer o.mu.Unlock()
	key := id{applied.GroupVersionKind().GroupKind(), applied.GetNamespace(), applied.GetName()}
	current, err := o.current(ctx, key, applied.GroupVersionKind())
	if err != nil {
		return err
	}
	if current != nil {
		return apierrors.NewConflict(schema.GroupResource{Group: key.Group, Resource: key.Kind}, key.name, errUnplanned)
	}
	return o.create(key, applied, applied.DeepCopy())
}

// Delete implements client.Writer.
func (o *overlay) Delete(ctx context.Context, object client.Object, _ ...client.DeleteOption) error {
	o.mu.Lock()
	defer o.mu.Unlock()
	kind, err := o.GroupVersionKindFor(object)
	if err != nil {
		return err
	}
	key := id{kind.GroupKind(), object.GetNamespace(), object.GetName()}
	current, err := o.current(ctx, key, kind)
	if err != nil {
		return err
	}
	if current == nil {
		return notFound(key)
	}
	o.record(key, kind, current, nil)
	return nil
}

// DeleteAllOf implements client.Writer.
func (*overlay) DeleteAllOf(context.Context, client.Object, ...client.DeleteAllOfOption) error {
	return fmt.Errorf("delete several objects at once: %w", errUnplanned)
}

// Status implements client.StatusClient.
func (o *overlay) Status() client.SubResourceWriter { return o.SubResource("status") }

// SubResource implements client.SubResourceClientConstructor.
func (o *overlay) SubResource(name string) client.SubResourceClient { return subresource{o, name} }

// subresource writes one field of objects.
type subresource struct {
	*overlay
	field string
}

// Get implements client.SubResourceReader.
func (subresource) Get(context.Context, client.Object, client.Object, ...client.SubResourceGetOption) error {
	return errUnplanned
}

// Create implements client.SubResourceWriter.
func (subresource) Create(context.Context, client.Object, client.Object, ...client.SubResourceCreateOption) error {
	return errUnplanned
}

// Update implements client.SubResourceWriter.
func (s subresource) Update(ctx context.Context, object client.Object, _ ...client.SubResourceUpdateOption) error {
	return s.change(ctx, object, func(current *unstructured.Unstructured) (*unstructured.Unstructured, error) {
		changed, _, err := s.content(object)
		if err != nil {
			return nil, err
		}
		return s.only(current, changed)
	})
}

// Patch implements client.SubResourceWriter.
func (s subresource) Patch(ctx context.Context, object client.Object, patch client.Patch, _ ...client.SubResourcePatchOption) error {
	return s.change(ctx, object, func(current *unstructured.Unstructured) (*unstructured.Unstructured, error) {
		changed, err := patched(current, object, patch)
		if err != nil {
			return nil, err
		}
		return s.only(current, changed)
	})
}

// Apply implements client.SubResourceWriter.
func (subresource) Apply(context.Context, runtime.ApplyConfiguration, ...client.SubResourceApplyOption) error {
	return errUnplanned
}

// only returns a copy of the current object with the field s.field and the resource version of the changed object.
func (s subresource) only(current, changed *unstructured.Unstructured) (*unstructured.Unstructured, error) {
	next := current.DeepCopy()
	next.SetResourceVersion(changed.GetResourceVersion())
	return next, keep(changed, next, s.field)
}
