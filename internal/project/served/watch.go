package served

import (
	"context"
	"errors"
	"sync"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	apiwatch "k8s.io/apimachinery/pkg/watch"
	toolscache "k8s.io/client-go/tools/cache"
	"k8s.io/utils/ptr"
)

// watch holds the objects of one resource, and knows whether these are all that there are: while its requests fail, it
// answers from the past, and a request that succeeds again does not mean that what was missed has come. After a failure
// everything is listed anew, and only when that is in the store the watch can be believed again.
type watch struct {
	read     reader
	objects  toolscache.Indexer
	handlers []toolscache.ResourceEventHandler
	changed  func()
	// of is whose objects these are, stop ends the watch. Both are for who has begun it.
	of   types.UID
	stop context.CancelFunc

	mu sync.Mutex // guards what follows
	// listed and watching say what has succeeded since the last failure.
	listed, watching bool
	// err is that failure, until both have.
	err error
}

// newWatch returns a watch that has not begun. It calls changed whenever it begins or ceases to be up to date, and the
// handlers with each change of its objects, one after the other: they must not block.
func newWatch(read reader, indexers toolscache.Indexers, changed func(), handlers ...toolscache.ResourceEventHandler) *watch {
	return &watch{read: read, objects: newShelf(indexers), changed: changed, handlers: handlers}
}

// run follows the resource until the context ends.
func (w *watch) run(ctx context.Context) {
	requests := &toolscache.ListWatch{ListWithContextFunc: w.list, WatchFuncWithContext: w.begin}
	toolscache.NewReflectorWithOptions(toolscache.ToListWatcherWithWatchListSemantics(requests, nil), w.read.example, store{w},
		toolscache.ReflectorOptions{Name: w.read.resource}).RunWithContext(ctx)
}

// finding says whether the watch has all objects: Served if it has.
func (w *watch) finding() Finding {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.judge()
}

// judge is finding for who holds the lock.
func (w *watch) judge() Finding {
	switch {
	case w.listed && w.watching:
		return Finding{State: Served}
	case w.err != nil:
		return unknown("cannot follow %s: %v", w.read.resource, w.err)
	default:
		return Finding{State: Unknown}
	}
}

// note changes what is known of the requests.
func (w *watch) note(change func()) {
	w.mu.Lock()
	before := w.judge()
	change()
	if w.listed && w.watching {
		w.err = nil
	}
	after := w.judge()
	w.mu.Unlock()
	if before.State != after.State || (before.Why == "") != (after.Why == "") {
		w.changed()
	}
}

// lose notes that something may be missed from now on. That a version has expired is nobody's fault, and soon mended. That
// the process ends says nothing.
func (w *watch) lose(ctx context.Context, err error) {
	if ctx.Err() != nil {
		return
	}
	w.note(func() {
		w.listed, w.watching = false, false
		if !expired(err) {
			w.err = err
		}
	})
}

func expired(err error) bool { return apierrors.IsResourceExpired(err) || apierrors.IsGone(err) }

// list reads everything that there is now.
func (w *watch) list(ctx context.Context, options metav1.ListOptions) (runtime.Object, error) {
	list, err := w.read.all(ctx, options)
	if err != nil {
		w.lose(ctx, err)
	}
	return list, err
}

// begin begins a watch request. Only from what was listed after the last failure it can go on.
func (w *watch) begin(ctx context.Context, options metav1.ListOptions) (apiwatch.Interface, error) {
	streams := ptr.Deref(options.SendInitialEvents, false)
	if streams {
		options.ResourceVersion = "" // all that there is now, not what there was when we looked last
	} else if !w.hasListed() {
		return nil, apierrors.NewResourceExpired("something may have been missed since the last listing")
	}
	events, err := w.read.watch(ctx, options)
	switch {
	case streams && apierrors.IsInvalid(err):
		return nil, err // the API server does not stream listings, and is about to be asked for one
	case err != nil:
		w.lose(ctx, err)
		if expired(err) {
			return nil, err
		}
		return nil, errors.New(err.Error()) // of some errors a Reflector thinks that it can go on after them
	}
	w.note(func() { w.watching = true })
	return drained{apiwatch.Filter(events, func(in apiwatch.Event) (apiwatch.Event, bool) {
		if in.Type == apiwatch.Error {
			w.lose(ctx, apierrors.FromObject(in.Object))
		}
		return w.read.sift(in)
	})}, nil
}

// drained leaves nobody behind when it is stopped: a filter that has an event in its hands waits until somebody takes it.
type drained struct{ apiwatch.Interface }

// Stop implements apiwatch.Interface.
func (d drained) Stop() {
	d.Interface.Stop()
	go func() {
		for range d.ResultChan() {
			continue // what comes now is of no use
		}
	}()
}

func (w *watch) hasListed() bool {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.listed
}
