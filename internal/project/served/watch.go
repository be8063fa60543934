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
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/log"

	"github.com/espalier-dev/espalier/internal/reflector"
)

// reader lists and watches one resource.
type reader struct {
	reflector.Client
	// resource is the plural name.
	resource string
	// onlyNeeded is true for Secrets: most Secrets of a large cluster belong to Shoots and are not needed.
	onlyNeeded bool
}

// keep returns the kept fields of an object, and false if the object is not needed.
func (r reader) keep(object client.Object) (*Object, bool) {
	kept := Of(object)
	return kept, !r.onlyNeeded || kept.Credentials || kept.Referenced
}

// all lists the current objects page by page.
func (r reader) all(ctx context.Context) ([]*Object, error) {
	return reflector.List(ctx, r.Client, r.keep)
}

// Handler is called with each change of an object. before is nil if the object was created, after is nil if it was deleted. An object with
// the same name and another UID is reported as a deletion and a creation, even if the watch missed the time in between.
type Handler func(before, after *Object)

// watch caches the objects of one resource, and knows whether the cache is complete. After a request of the watch has failed, the cache
// may be outdated, and a later request that succeeds does not mean that the missed events have arrived. So after a failure the watch lists
// all objects again. The cache counts as complete only when this list is in the store and a watch request has succeeded too.
type watch struct {
	read     reader
	objects  toolscache.ThreadSafeStore // of *Object
	handlers []Handler
	changed  func()
	// The field of is the UID of the CustomResourceDefinition or APIService to which the objects belong. The function stop ends the watch.
	// Only the caller of newWatch uses both fields.
	of   types.UID
	stop context.CancelFunc

	mu sync.Mutex // guards the fields below
	// listed and watching say which requests have succeeded since the last failure.
	listed, watching bool
	// err is the last failure. It is cleared when a list and a watch have succeeded since then.
	err error
}

var _ reflector.Receiver[*Object] = &watch{}

// newWatch returns a watch that does not run yet. The watch calls changed when the State of its Finding changes, or when a reason appears
// or disappears. For each change of an object it calls the handlers one after the other. Neither changed nor a handler may block.
func newWatch(read reader, changed func(), handlers ...Handler) *watch {
	return &watch{read: read, objects: newStore(), changed: changed, handlers: handlers}
}

// run follows the resource until the context ends.
func (w *watch) run(ctx context.Context) {
	reflector.Run(ctx, reflector.Options{
		Name: w.read.resource, Client: &toolscache.ListWatch{ListWithContextFunc: w.list, WatchFuncWithContext: w.begin}, Paged: true,
		Log: log.FromContext(ctx), OnError: func(err error) { w.handleError(ctx, err) },
	}, w.read.keep, w)
}

// all returns all objects.
func (w *watch) all() []*Object { return objectsOf(w.objects.List()) }

// Set implements reflector.Receiver.
func (w *watch) Set(key types.NamespacedName, object *Object) {
	before, _ := w.objects.Get(key.String())
	w.objects.Update(key.String(), object)
	w.announce(asObject(before), object)
}

// Delete implements reflector.Receiver.
func (w *watch) Delete(key types.NamespacedName, _ string) {
	before, _ := w.objects.Get(key.String())
	w.objects.Delete(key.String())
	w.announce(asObject(before), nil)
}

// Replace implements reflector.Receiver.
func (w *watch) Replace(objects map[types.NamespacedName]*Object, version string) {
	before := map[types.NamespacedName]*Object{}
	for _, object := range w.all() {
		before[types.NamespacedName{Namespace: object.Namespace, Name: object.Name}] = object
	}
	stored := make(map[string]any, len(objects))
	for key, object := range objects {
		stored[key.String()] = object
	}
	w.objects.Replace(stored, version)
	for key, object := range objects {
		w.announce(before[key], object)
		delete(before, key)
	}
	for _, gone := range before {
		w.announce(gone, nil)
	}
	w.changeState(func() { w.listed = true })
}

// announce reports a change of an object to the handlers.
func (w *watch) announce(before, after *Object) {
	if before != nil && after != nil {
		if before.UID != after.UID {
			w.announce(before, nil)
			w.announce(nil, after)
			return
		}
		if before.ResourceVersion == after.ResourceVersion {
			return
		}
	}
	if before == nil && after == nil {
		return // the object was never kept
	}
	for _, handler := range w.handlers {
		handler(before, after)
	}
}

// finding returns Served if the watch has all objects.
func (w *watch) finding() Finding {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.judge()
}

// judge is finding without the lock. The caller must have locked w.mu.
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

// changeState calls change, which sets fields of the watch, and then calls w.changed if the Finding differs from the Finding before.
func (w *watch) changeState(change func()) {
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

// handleError records that events may be missing from now on. It does not record an expired resource version as the last failure, because
// a new list soon repairs the cache. It ignores errors after the end of the context.
func (w *watch) handleError(ctx context.Context, err error) {
	if ctx.Err() != nil {
		return
	}
	w.changeState(func() {
		w.listed, w.watching = false, false
		if !expired(err) {
			w.err = err
		}
	})
}

func expired(err error) bool { return apierrors.IsResourceExpired(err) || apierrors.IsGone(err) }

// list reads a page of the current objects.
func (w *watch) list(ctx context.Context, options metav1.ListOptions) (runtime.Object, error) {
	page, err := w.read.ListWithContext(ctx, options)
	if err != nil {
		w.handleError(ctx, err)
	}
	return page, err
}

// begin starts a watch request. It can continue only from a list that was read after the last failure.
func (w *watch) begin(ctx context.Context, options metav1.ListOptions) (apiwatch.Interface, error) {
	streams := ptr.Deref(options.SendInitialEvents, false)
	if streams {
		options.ResourceVersion = "" // all current objects, not the ones of the last known version
	} else if !w.hasListed() {
		return nil, apierrors.NewResourceExpired("something may have been missed since the last listing")
	}
	events, err := w.read.WatchWithContext(ctx, options)
	switch {
	case streams && apierrors.IsInvalid(err):
		return nil, err // the API server does not stream lists, so the Reflector lists next
	case err != nil:
		w.handleError(ctx, err)
		if expired(err) {
			return nil, err
		}
		return nil, errors.New(err.Error()) // a Reflector must list now; after some types of error it would resume the watch
	}
	w.changeState(func() { w.watching = true })
	return events, nil
}

func (w *watch) hasListed() bool {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.listed
}
