package reflector

import (
	"context"
	"fmt"
	"unique"

	"github.com/go-logr/logr"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/watch"
	"k8s.io/client-go/tools/cache"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

// Keep returns the part of an object that is stored, and false if the object is not kept. The function may change the object.
type Keep[T any] func(object client.Object) (T, bool)

// Receiver gets the events of a Reflector. Its methods are called one after the other.
type Receiver[T any] interface {
	// Set is called for an object that was created or changed, and that Keep keeps.
	Set(key types.NamespacedName, value T)
	// Delete is called for an object that was deleted, or that Keep no longer keeps. The Receiver may never have received it.
	Delete(key types.NamespacedName, resourceVersion string)
	// Replace is called with a complete list.
	Replace(values map[types.NamespacedName]T, resourceVersion string)
}

// Bookmarked is a Receiver that also gets the versions of bookmarks.
type Bookmarked interface{ Bookmark(resourceVersion string) }

// Options select the objects that Run reads.
type Options struct {
	// Name names the Reflector in logs.
	Name   string
	Client Client
	// Paged is true if most objects are not kept: then they are listed in pages.
	Paged bool
	// Connection is the client of client-go that the Client uses. It knows whether the API server can stream lists.
	Connection any
	// OnError is called with each error that the API server sends in a watch. Nil: no call.
	OnError func(error)
	Log     logr.Logger
}

// Run follows the objects until the context ends.
func Run[T any](ctx context.Context, o Options, keep Keep[T], into Receiver[T]) {
	source := Source
	if o.Paged {
		source = PagedSource
	}
	listed := source(o.Client, o.Connection, func(event watch.Event) watch.Event {
		if event.Type == watch.Error && o.OnError != nil {
			o.OnError(apierrors.FromObject(event.Object))
		}
		return reduce(event, keep)
	})
	// The Reflector receives items instead of objects of the kind, so it has no type to check.
	cache.NewReflectorWithOptions(listed, nil, NewStore(keep, into), cache.ReflectorOptions{
		Name: o.Name, TypeDescription: o.Name, Logger: &o.Log,
	}).
		RunWithContext(logr.NewContext(ctx, o.Log))
}

// List returns the kept parts of the current objects. It reads them page by page, with one page in memory.
func List[T any](ctx context.Context, c Client, keep Keep[T]) ([]T, error) {
	list, err := readPages(ctx, c, metav1.ListOptions{}, func(event watch.Event) watch.Event { return reduce(event, keep) })
	if err != nil {
		return nil, err
	}
	kept := make([]T, 0, len(list.Items))
	for _, each := range list.Items {
		arrived, ok := each.(*item[T])
		if !ok {
			return nil, fmt.Errorf("read list: unexpected type %T", each)
		}
		kept = append(kept, arrived.value)
	}
	return kept, nil
}

// item contains the kept part of an object. Its metadata contains namespace, name and resourceVersion.
type item[T any] struct {
	metav1.ObjectMeta
	value T
}

// GetObjectKind implements runtime.Object.
func (*item[T]) GetObjectKind() schema.ObjectKind { return schema.EmptyObjectKind }

// DeepCopyObject implements runtime.Object. Nothing changes items, so the copy shares the value.
func (i *item[T]) DeepCopyObject() runtime.Object {
	shallow := *i
	return &shallow
}

// reduce replaces the object of an event by an item. An object that is not kept counts as deleted.
func reduce[T any](event watch.Event, keep Keep[T]) watch.Event {
	found, ok := event.Object.(client.Object)
	if !ok {
		return event
	}
	arrived := &item[T]{ObjectMeta: metav1.ObjectMeta{
		Namespace: unique.Make(found.GetNamespace()).Value(), Name: found.GetName(), ResourceVersion: found.GetResourceVersion(),
	}}
	if event.Type != watch.Deleted {
		var kept bool
		if arrived.value, kept = keep(found); !kept {
			event.Type = watch.Deleted
		}
	}
	event.Object = arrived
	return event
}

// store passes items to a Receiver.
type store[T any] struct {
	keep Keep[T]
	into Receiver[T]
}

var _ cache.ReflectorBookmarkStore = store[any]{}

// NewStore returns the store with which Run fills a Receiver. Tests use it to add whole objects.
func NewStore[T any](keep Keep[T], into Receiver[T]) cache.ReflectorStore {
	return store[T]{keep, into}
}

// Add implements cache.ReflectorStore.
func (s store[T]) Add(object any) error { return s.event(watch.Added, object) }

// Update implements cache.ReflectorStore.
func (s store[T]) Update(object any) error { return s.event(watch.Modified, object) }

// Delete implements cache.ReflectorStore.
func (s store[T]) Delete(object any) error {
	if missed, ok := object.(cache.DeletedFinalStateUnknown); ok {
		object = missed.Obj
	}
	return s.event(watch.Deleted, object)
}

func (s store[T]) event(kind watch.EventType, object any) error {
	found, kept, err := s.item(kind, object)
	switch {
	case err != nil:
		return err
	case kept == watch.Deleted:
		s.into.Delete(found.key(), found.ResourceVersion)
	default:
		s.into.Set(found.key(), found.value)
	}
	return nil
}

func (i *item[T]) key() types.NamespacedName {
	return types.NamespacedName{Namespace: i.Namespace, Name: i.Name}
}

func (s store[T]) item(kind watch.EventType, object any) (*item[T], watch.EventType, error) {
	if whole, ok := object.(runtime.Object); ok {
		event := watch.Event{Type: kind, Object: whole}
		if _, reduced := object.(*item[T]); !reduced {
			event = reduce(event, s.keep)
		}
		if found, ok := event.Object.(*item[T]); ok {
			return found, event.Type, nil
		}
	}
	return nil, "", fmt.Errorf("read object: unexpected type %T", object)
}

// Replace implements cache.ReflectorStore.
func (s store[T]) Replace(objects []any, resourceVersion string) error {
	values := make(map[types.NamespacedName]T, len(objects))
	for _, each := range objects {
		found, kept, err := s.item(watch.Added, each)
		if err != nil {
			return err
		}
		if kept != watch.Deleted {
			values[found.key()] = found.value
		}
	}
	s.into.Replace(values, resourceVersion)
	return nil
}

// Bookmark implements cache.ReflectorBookmarkStore.
func (s store[T]) Bookmark(resourceVersion string) error {
	if b, ok := s.into.(Bookmarked); ok {
		b.Bookmark(resourceVersion)
	}
	return nil
}

// Resync implements cache.ReflectorStore. It does nothing.
func (store[T]) Resync() error { return nil }
