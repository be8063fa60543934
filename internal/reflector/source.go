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
	"k8s.io/client-go/dynamic"
	"k8s.io/client-go/metadata"
	"k8s.io/client-go/tools/cache"
)

// PageSize is the number of objects per page.
const PageSize = 500

// Client lists and watches the objects of one kind, in one namespace or in all.
type Client interface {
	List(ctx context.Context, options metav1.ListOptions) (runtime.Object, error)
	Watch(ctx context.Context, options metav1.ListOptions) (watch.Interface, error)
}

// Funcs is a Client.
type Funcs struct {
	ListFunc  func(context.Context, metav1.ListOptions) (runtime.Object, error)
	WatchFunc func(context.Context, metav1.ListOptions) (watch.Interface, error)
}

// List implements Client.
func (f Funcs) List(ctx context.Context, options metav1.ListOptions) (runtime.Object, error) {
	return f.ListFunc(ctx, options)
}

// Watch implements Client.
func (f Funcs) Watch(ctx context.Context, options metav1.ListOptions) (watch.Interface, error) {
	return f.WatchFunc(ctx, options)
}

// Metadata returns a Client for the metadata of objects.
func Metadata(resource metadata.ResourceInterface) Client {
	return Funcs{WatchFunc: resource.Watch, ListFunc: func(ctx context.Context, options metav1.ListOptions) (runtime.Object, error) {
		return resource.List(ctx, options)
	}}
}

// Dynamic returns a Client for whole objects without a Go type.
func Dynamic(resource dynamic.ResourceInterface) Client {
	return Funcs{WatchFunc: resource.Watch, ListFunc: func(ctx context.Context, options metav1.ListOptions) (runtime.Object, error) {
		return resource.List(ctx, options)
	}}
}

// Source returns what a Reflector or an informer reads. Every object goes through pass as soon as it arrives; a listed one as an event of
// type Added, which is dropped from the list if pass returns another type. Errors within a watch go through pass too. connection is the
// client of client-go behind the Client. It knows whether lists can be streamed.
func Source(c Client, connection any, pass func(watch.Event) watch.Event) cache.ListerWatcher {
	return source(c.Watch, connection, pass, func(ctx context.Context, options metav1.ListOptions) (runtime.Object, error) {
		kept := &metainternalversion.List{}
		return kept, addPage(ctx, kept, c, options, pass)
	})
}

// PagedSource is Source for objects of which most are dropped: it lists the current objects page by page, with one page in memory. A
// Reflector would request all objects at once, except at its start.
func PagedSource(c Client, connection any, pass func(watch.Event) watch.Event) cache.ListerWatcher {
	return source(c.Watch, connection, pass, func(ctx context.Context, options metav1.ListOptions) (runtime.Object, error) {
		return readPages(ctx, c, options, pass)
	})
}

// readPages lists the current objects page by page, and returns what pass keeps of them.
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
				return nil, err // the reflector checks the type of this error
			}
			return newFilter(upstream, pass), nil
		},
	}, connection)
}

// addPage reads a page and adds what pass keeps of it to a list.
func addPage(
	ctx context.Context, kept *metainternalversion.List, c Client, options metav1.ListOptions, pass func(watch.Event) watch.Event,
) error {
	page, err := c.List(ctx, options)
	if err != nil {
		return err // the reflector checks the type of this error
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

// Bookmark returns an event without an object, from which a Reflector takes only the resourceVersion. It is a new object: an annotation of
// the given one could otherwise claim that a streamed list is complete.
func Bookmark(object metav1.Object) watch.Event {
	return watch.Event{Type: watch.Bookmark, Object: &metav1.PartialObjectMetadata{
		ObjectMeta: metav1.ObjectMeta{ResourceVersion: object.GetResourceVersion()},
	}}
}

// filter is a watch whose events, except for bookmarks, go through a function.
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

// Stop implements watch.Interface. After it no event goes through the function: it would be older than the list that comes next.
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
		case <-f.stopped: // there is no receiver any more; the upstream ends too
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
