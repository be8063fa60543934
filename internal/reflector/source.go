package reflector

import (
	"context"
	"fmt"
	"sync"

	"k8s.io/apimachinery/pkg/api/meta"
	metainternalversion "k8s.io/apimachinery/pkg/apis/meta/internalversion"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/watch"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/cache"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

// PageSize is the number of objects per page.
const PageSize = 500

// Client lists and watches the objects of one kind, in one namespace or in all.
type Client = cache.ListerWatcherWithContext

// resource is the client-go client for one kind, for metadata or for objects without a Go type.
type resource[L runtime.Object] interface {
	List(ctx context.Context, options metav1.ListOptions) (L, error)
	Watch(ctx context.Context, options metav1.ListOptions) (watch.Interface, error)
}

// Untyped returns a Client for metadata, or for objects without a Go type.
func Untyped[L runtime.Object](r resource[L]) Client {
	return &cache.ListWatch{
		ListWithContextFunc: func(ctx context.Context, options metav1.ListOptions) (runtime.Object, error) {
			return r.List(ctx, options)
		},
		WatchFuncWithContext: r.Watch,
	}
}

// Typed returns a Client for objects that a REST client decodes to their Go types.
func Typed(request func(options metav1.ListOptions) *rest.Request) Client {
	return &cache.ListWatch{
		ListWithContextFunc: func(ctx context.Context, options metav1.ListOptions) (runtime.Object, error) {
			return request(options).Do(ctx).Get()
		},
		WatchFuncWithContext: func(ctx context.Context, options metav1.ListOptions) (watch.Interface, error) {
			options.Watch = true
			return request(options).Watch(ctx)
		},
	}
}

// Objects returns a Client for the selected objects of one kind. The argument empty is an empty list of the kind.
func Objects(c client.WithWatch, empty client.ObjectList, selection client.ListOptions) Client {
	prepare := func(options metav1.ListOptions) (client.ObjectList, *client.ListOptions) {
		list, _ := empty.DeepCopyObject().(client.ObjectList) // a copy has the type of the original
		selected := selection
		selected.Raw, selected.Limit, selected.Continue = &options, options.Limit, options.Continue
		return list, &selected
	}
	return &cache.ListWatch{
		ListWithContextFunc: func(ctx context.Context, options metav1.ListOptions) (runtime.Object, error) {
			list, selected := prepare(options)
			return list, c.List(ctx, list, selected)
		},
		WatchFuncWithContext: func(ctx context.Context, options metav1.ListOptions) (watch.Interface, error) {
			list, selected := prepare(options)
			return c.Watch(ctx, list, selected)
		},
	}
}

// Source returns a ListerWatcher for a Reflector or an informer. The ListerWatcher calls the argument pass for every object as soon as the
// object arrives. For a listed object, the event has the type Added; if pass returns an event of another type, the ListerWatcher drops the
// object from the list. The ListerWatcher also calls pass for errors within a watch, but not for bookmarks. The argument connection is the
// client of client-go that the Client uses; it knows whether the API server can stream lists.
func Source(c Client, connection any, pass func(watch.Event) watch.Event) cache.ListerWatcher {
	return source(c.WatchWithContext, connection, pass, func(ctx context.Context, options metav1.ListOptions) (runtime.Object, error) {
		kept := &metainternalversion.List{}
		return kept, addPage(ctx, kept, c, options, pass)
	})
}

// PagedSource is like Source, for kinds of which the function pass drops most objects. It lists the current objects page by page, and
// holds one page in memory. A Reflector alone would request all objects at once, except at its start.
func PagedSource(c Client, connection any, pass func(watch.Event) watch.Event) cache.ListerWatcher {
	return source(c.WatchWithContext, connection, pass, func(ctx context.Context, options metav1.ListOptions) (runtime.Object, error) {
		return readPages(ctx, c, options, pass)
	})
}

// readPages lists the current objects page by page, and returns the objects that pass keeps.
func readPages(
	ctx context.Context, c Client, options metav1.ListOptions, pass func(watch.Event) watch.Event,
) (*metainternalversion.List, error) {
	kept := &metainternalversion.List{}
	options.Limit, options.ResourceVersion, options.ResourceVersionMatch = PageSize, "", ""
	for {
		if err := addPage(ctx, kept, c, options, pass); err != nil {
			return nil, err
		}
		if options.Continue = kept.Continue; options.Continue == "" {
			return kept, nil
		}
	}
}

func source(
	open cache.WatchFuncWithContext, connection any, pass func(watch.Event) watch.Event, list cache.ListWithContextFunc,
) cache.ListerWatcher {
	return cache.ToListWatcherWithWatchListSemantics(&cache.ListWatch{
		ListWithContextFunc: list,
		WatchFuncWithContext: func(ctx context.Context, options metav1.ListOptions) (watch.Interface, error) {
			upstream, err := open(ctx, options)
			if err != nil {
				return nil, err // the Reflector checks the type of this error
			}
			return newFilter(upstream, pass), nil
		},
	}, connection)
}

// addPage reads a page, and adds the objects that pass keeps to a list.
func addPage(
	ctx context.Context, kept *metainternalversion.List, c Client, options metav1.ListOptions, pass func(watch.Event) watch.Event,
) error {
	page, err := c.ListWithContext(ctx, options)
	if err != nil {
		return err // the Reflector checks the type of this error
	}
	about, err := meta.ListAccessor(page)
	if err != nil {
		return fmt.Errorf("read list: %w", err)
	}
	kept.ResourceVersion, kept.Continue, kept.RemainingItemCount = about.GetResourceVersion(), about.GetContinue(),
		about.GetRemainingItemCount()
	err = meta.EachListItem(page, func(object runtime.Object) error {
		if event := pass(watch.Event{Type: watch.Added, Object: object}); event.Type == watch.Added {
			kept.Items = append(kept.Items, event.Object)
		}
		return nil
	})
	if err != nil {
		return fmt.Errorf("read list: %w", err)
	}
	return nil
}

// Bookmark returns an event that has only a resourceVersion, for a Reflector. Its object is new: an annotation of the given object could
// otherwise claim that a streamed list is complete.
func Bookmark(object metav1.Object) watch.Event {
	return watch.Event{Type: watch.Bookmark, Object: &metav1.PartialObjectMetadata{
		ObjectMeta: metav1.ObjectMeta{ResourceVersion: object.GetResourceVersion()},
	}}
}

// filter is a watch that passes its events, except for bookmarks, through a function.
type filter struct {
	upstream watch.Interface
	pass     func(watch.Event) watch.Event
	result   chan watch.Event
	stopped  chan struct{}

	mu    sync.Mutex
	ended bool
}

func newFilter(upstream watch.Interface, pass func(watch.Event) watch.Event) *filter {
	f := &filter{upstream: upstream, pass: pass, result: make(chan watch.Event), stopped: make(chan struct{})}
	go f.run()
	return f
}

// ResultChan implements watch.Interface.
func (f *filter) ResultChan() <-chan watch.Event { return f.result }

// Stop implements watch.Interface. After Stop, the filter no longer calls the function pass, because the object of an event would be older
// than the next list.
func (f *filter) Stop() {
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.ended {
		return
	}
	f.ended = true
	close(f.stopped)
	f.upstream.Stop()
}

func (f *filter) run() {
	defer close(f.result)
	for event := range f.upstream.ResultChan() {
		if event.Type != watch.Bookmark {
			event = f.passUntilStop(event)
		}
		select {
		case f.result <- event:
		case <-f.stopped: // the receiver has stopped reading; the upstream watch ends too
		}
	}
}

func (f *filter) passUntilStop(event watch.Event) watch.Event {
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.ended {
		return event
	}
	return f.pass(event)
}
