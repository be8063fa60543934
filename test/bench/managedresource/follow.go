package managedresource

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/watch"
	"k8s.io/client-go/tools/cache"
	watchtools "k8s.io/client-go/tools/watch"
)

// event is a change of an object from a watch.
type event struct {
	at       time.Time
	resource schema.GroupVersionResource
	deleted  bool
	object   metav1.Object
}

func (e event) key() key { return key{e.resource, e.object.GetNamespace(), e.object.GetName()} }

// content is nil for objects that are watched as metadata.
func (e event) content() map[string]any {
	if u, ok := e.object.(*unstructured.Unstructured); ok {
		return u.Object
	}
	return nil
}

// subject defines what to watch.
type subject struct {
	resource schema.GroupVersionResource
	selector string
	// full requests whole objects instead of their metadata.
	full bool
}

// follower watches subjects from its creation on. Each event has the time at which it was received.
type follower struct {
	events chan event
	failed chan error
	cancel context.CancelFunc
	group  sync.WaitGroup
}

// follow starts the watches; they receive every change after it has returned. The caller must call stop.
func (b *bench) follow(subjects ...subject) *follower {
	ctx, cancel := context.WithCancel(b.Ctx)
	f := &follower{events: make(chan event, 1<<17), failed: make(chan error, len(subjects)), cancel: cancel}
	for _, s := range subjects {
		w := b.watch(ctx, s)
		f.group.Go(func() {
			defer w.Stop()
			f.failed <- pump(ctx, w, s.resource, f.events)
		})
	}
	return f
}

// watch starts at the present state: a list with limit 1 returns its resourceVersion.
func (b *bench) watch(ctx context.Context, s subject) watch.Interface {
	c := b.target
	if s.resource == managedResources {
		c = b.source
	}
	begin, err := c.metadata.Resource(s.resource).List(ctx, metav1.ListOptions{LabelSelector: s.selector, Limit: 1})
	b.Checkf(err, "list %s", s.resource.Resource)
	source := &cache.ListWatch{WatchFuncWithContext: func(ctx context.Context, more metav1.ListOptions) (watch.Interface, error) {
		more.LabelSelector = s.selector
		if s.full {
			return c.objects.Resource(s.resource).Watch(ctx, more)
		}
		return c.metadata.Resource(s.resource).Watch(ctx, more)
	}}
	// An API server ends watches that cannot keep up; this watcher continues at the last version.
	w, err := watchtools.NewRetryWatcherWithContext(ctx, begin.ResourceVersion, source)
	b.Checkf(err, "watch %s", s.resource.Resource)
	return w
}

// pump passes events until the watch or the context ends. In the latter case its error is not used.
func pump(ctx context.Context, w watch.Interface, resource schema.GroupVersionResource, events chan<- event) error {
	for {
		select {
		case <-ctx.Done():
			return nil
		case e, open := <-w.ResultChan():
			at := time.Now()
			if !open {
				return fmt.Errorf("watch %s: it has ended", resource.Resource)
			}
			if e.Type == watch.Error {
				return fmt.Errorf("watch %s: %w", resource.Resource, apierrors.FromObject(e.Object))
			}
			if o, ok := e.Object.(metav1.Object); ok {
				select {
				case events <- event{at: at, resource: resource, deleted: e.Type == watch.Deleted, object: o}:
				case <-ctx.Done():
					return nil
				}
			}
		}
	}
}

func (f *follower) stop() {
	f.cancel()
	f.group.Wait()
}

// drain calls see for every event that was received so far.
func (f *follower) drain(see func(event) bool) {
	for {
		select {
		case e := <-f.events:
			see(e)
		default:
			return
		}
	}
}

// until calls done for every event until it returns true, and returns the time of that event. What describes the awaited state in the error
// after the limit.
func (b *bench) until(f *follower, limit time.Duration, what string, done func(event) bool) time.Time {
	at, err := f.await(b.Ctx, limit, what, done)
	b.Check(err)
	return at
}

// await does the same, and returns the error.
func (f *follower) await(ctx context.Context, limit time.Duration, what string, done func(event) bool) (time.Time, error) {
	ctx, cancel := context.WithTimeoutCause(ctx, limit, fmt.Errorf("wait for %s: not within %s", what, limit))
	defer cancel()
	for {
		select {
		case e := <-f.events:
			if done(e) {
				return e.at, nil
			}
		case err := <-f.failed:
			return time.Time{}, errors.Join(fmt.Errorf("wait for %s: a watch has ended", what), err)
		case <-ctx.Done():
			return time.Time{}, context.Cause(ctx)
		}
	}
}

// subjects returns the watches for the objects of a run.
func subjects(run string) []subject {
	kinds := managedKinds()
	all := make([]subject, 0, len(kinds)+1) // callers that wait for sets too append them
	for _, resource := range kinds {
		all = append(all, subject{resource: resource, selector: runLabel + "=" + run})
	}
	return all
}

// untilGone returns a function that returns true for the last of n deletions.
func untilGone(n int) func(event) bool {
	return func(e event) bool {
		if e.deleted {
			n--
		}
		return n == 0
	}
}
