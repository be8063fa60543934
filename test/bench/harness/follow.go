package harness

import (
	"context"
	"errors"
	"fmt"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/util/sets"
	"k8s.io/apimachinery/pkg/watch"
	"k8s.io/client-go/tools/cache"
	watchtools "k8s.io/client-go/tools/watch"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

// Event is a change of an object from a watch, with the time at which it was received.
type Event struct {
	At      time.Time
	Kind    schema.GroupVersionKind
	Deleted bool
	Object  client.Object
}

// IsOf reports whether the event is about the given object.
func (e Event) IsOf(kind schema.GroupVersionKind, o client.Object) bool {
	return e.Kind == kind && client.ObjectKeyFromObject(e.Object) == client.ObjectKeyFromObject(o)
}

// Subject defines the objects to watch: all objects of a kind that have all labels.
type Subject struct {
	Cluster *Cluster
	Kind    schema.GroupVersionKind
	Labels  map[string]string
	// Full requests whole objects instead of their metadata.
	Full bool
}

// Follower watches subjects and stores their events, from its creation on.
type Follower struct {
	// Stop ends the watches.
	Stop   context.CancelFunc
	run    *Run
	events chan Event
}

// Follow starts the watches; they receive every change after it has returned. The caller must call Stop.
func (r *Run) Follow(subjects ...Subject) *Follower {
	ctx, cancel := context.WithCancel(r.Ctx)
	f := &Follower{Stop: cancel, run: r, events: make(chan Event, 1<<17)}
	for _, s := range subjects {
		go f.pass(ctx, r.watch(ctx, s), s.Kind)
	}
	return f
}

// watch opens a watch that starts at the present state, whose resourceVersion it gets from a list with limit 1.
func (r *Run) watch(ctx context.Context, s Subject) watch.Interface {
	c, listKind := s.Cluster.Client, s.Kind.GroupVersion().WithKind(s.Kind.Kind+"List")
	begin := &metav1.PartialObjectMetadataList{}
	begin.SetGroupVersionKind(listKind)
	selected := client.ListOptions{LabelSelector: labels.SelectorFromSet(s.Labels)}
	r.Checkf(c.List(ctx, begin, &selected, client.Limit(1)), "list %s", s.Kind.Kind)
	var list client.ObjectList = begin
	if s.Full {
		typed, err := c.Scheme().New(listKind)
		r.Check(err)
		list = typed.(client.ObjectList) //nolint:errcheck,forcetypeassert // lists of the scheme are nothing else
	}
	source := &cache.ListWatch{WatchFuncWithContext: func(ctx context.Context, more metav1.ListOptions) (watch.Interface, error) {
		return c.Watch(ctx, list, &client.ListOptions{LabelSelector: selected.LabelSelector, Raw: &more})
	}}
	// An API server ends watches that cannot keep up. This watcher then continues at the last resourceVersion.
	w, err := watchtools.NewRetryWatcherWithContext(ctx, begin.ResourceVersion, source)
	r.Checkf(err, "watch %s", s.Kind.Kind)
	return w
}

// pass stores the events of a watch until the context ends. If the watch ends before, the job fails.
func (f *Follower) pass(ctx context.Context, w watch.Interface, kind schema.GroupVersionKind) {
	err := errors.New("it has ended")
	for e := range w.ResultChan() {
		if o, ok := e.Object.(client.Object); ok {
			select {
			case f.events <- Event{At: time.Now(), Kind: kind, Deleted: e.Type == watch.Deleted, Object: o}:
			case <-ctx.Done():
			}
		} else { // the last event of a watch that fails
			err = apierrors.FromObject(e.Object)
		}
	}
	if ctx.Err() == nil {
		f.run.Checkf(err, "watch %s", kind.Kind)
	}
}

// Drain calls see for every event that was received so far.
func (f *Follower) Drain(see func(Event) bool) {
	for {
		select {
		case e := <-f.events:
			see(e)
		default:
			return
		}
	}
}

// Until calls done for every event until it returns true, and returns the time of that event. After the limit, the job fails; the error
// names the awaited state.
func (f *Follower) Until(limit time.Duration, what string, done func(Event) bool) (at time.Time) {
	ctx, cancel := context.WithTimeoutCause(f.run.Ctx, limit, fmt.Errorf("wait for %s: not within %s", what, limit))
	defer cancel()
	for {
		select {
		case e := <-f.events:
			if done(e) {
				return e.At
			}
		case <-ctx.Done():
			f.run.Check(context.Cause(ctx))
		}
	}
}

// UntilGone returns a function for Follower.Until. It returns true for the event of the n-th deletion.
func UntilGone(n int) func(Event) bool {
	return func(e Event) bool {
		if e.Deleted {
			n--
		}
		return n == 0
	}
}

// UntilAll returns a function for Follower.Until. It returns true for the event that completes n different names. name returns "" for
// events that do not count.
func UntilAll(n int, name func(Event) string) func(Event) bool {
	seen := sets.New[string]()
	return func(e Event) bool {
		if found := name(e); found != "" {
			seen.Insert(found)
		}
		return seen.Len() == n
	}
}
