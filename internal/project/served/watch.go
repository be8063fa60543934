package served

import (
	"context"
	"fmt"
	"sync"

	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	apiwatch "k8s.io/apimachinery/pkg/watch"
	toolscache "k8s.io/client-go/tools/cache"
)

// pageSize is how many objects are listed at once where the API server does not stream listings.
const pageSize = 500

// reader lists and watches one resource.
type reader struct {
	list  func(context.Context, metav1.ListOptions) (runtime.Object, error)
	watch func(context.Context, metav1.ListOptions) (apiwatch.Interface, error)
}

// watch is an informer that knows whether its last request succeeded: one whose requests fail answers from the past.
type watch struct {
	toolscache.SharedIndexInformer
	// of is what the watch goes with.
	of      types.UID
	stop    context.CancelFunc
	changed func()

	mu  sync.Mutex // guards err
	err error
}

// newWatch returns a watch that has not begun. It calls changed when its requests begin to fail or to succeed.
func newWatch(read reader, example runtime.Object, indexers toolscache.Indexers, changed func()) (*watch, error) {
	w := &watch{changed: changed}
	listWatch := &toolscache.ListWatch{
		ListWithContextFunc: func(ctx context.Context, options metav1.ListOptions) (runtime.Object, error) {
			list, err := listPages(ctx, options, read.list)
			if err != nil {
				w.noteFailure(ctx, err)
			}
			return list, err
		},
		WatchFuncWithContext: func(ctx context.Context, options metav1.ListOptions) (apiwatch.Interface, error) {
			events, err := read.watch(ctx, options)
			w.noteFailure(ctx, err)
			if err != nil {
				return nil, err
			}
			return apiwatch.Filter(events, sift), nil
		},
	}
	w.SharedIndexInformer = toolscache.NewSharedIndexInformer(toolscache.ToListWatcherWithWatchListSemantics(listWatch, nil), example, 0, indexers)
	if err := w.SetTransform(trim); err != nil {
		return nil, fmt.Errorf("set transform: %w", err)
	}
	return w, nil
}

// noteFailure notes how a request ended; nil: well. Requests that fail because the process ends say nothing.
func (w *watch) noteFailure(ctx context.Context, err error) {
	if ctx.Err() != nil {
		return
	}
	w.mu.Lock()
	different := (w.err == nil) != (err == nil)
	w.err = err
	w.mu.Unlock()
	if different {
		w.changed()
	}
}

// failure returns the error of the last request, if it failed.
func (w *watch) failure() error {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.err
}

// listPages reads page by page what the API server has now, and keeps of each page only what matters.
func listPages(ctx context.Context, options metav1.ListOptions, list func(context.Context, metav1.ListOptions) (runtime.Object, error)) (runtime.Object, error) {
	options.Limit, options.ResourceVersion, options.ResourceVersionMatch = pageSize, "", ""
	var kept []runtime.Object
	for {
		page, err := list(ctx, options)
		if err != nil {
			return nil, err
		}
		if kept, err = keep(kept, page); err != nil {
			return nil, err
		}
		about, err := meta.ListAccessor(page)
		if err != nil {
			return nil, fmt.Errorf("read list: %w", err)
		}
		if options.Continue = about.GetContinue(); options.Continue == "" {
			return page, meta.SetList(page, kept)
		}
	}
}

func keep(kept []runtime.Object, page runtime.Object) ([]runtime.Object, error) {
	err := meta.EachListItem(page, func(object runtime.Object) error {
		if !matters(object) {
			return nil
		}
		trimmed, err := trim(object)
		if small, ok := trimmed.(runtime.Object); ok {
			kept = append(kept, small)
		}
		return err
	})
	if err != nil {
		return nil, fmt.Errorf("read list: %w", err)
	}
	return kept, nil
}

// sift lets through what matters. What no longer does is gone for who looks at it here.
func sift(in apiwatch.Event) (out apiwatch.Event, through bool) {
	if in.Type == apiwatch.Error || in.Type == apiwatch.Bookmark || matters(in.Object) {
		return in, true
	}
	if in.Type == apiwatch.Modified {
		in.Type = apiwatch.Deleted
	}
	return in, in.Type == apiwatch.Deleted
}
