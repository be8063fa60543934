package secretversions

import (
	"sync"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/watch"
)

// filter is a watch that processes objects and passes only their versions, as bookmarks. The reflector would otherwise collect all objects
// of a streamed list until its end.
type filter struct {
	upstream watch.Interface
	digest   func(watch.EventType, *metav1.PartialObjectMetadata)
	result   chan watch.Event
	stopped  chan struct{}

	mu    sync.Mutex
	ended bool
}

func newFilter(upstream watch.Interface, digest func(watch.EventType, *metav1.PartialObjectMetadata)) *filter {
	f := &filter{upstream: upstream, digest: digest, result: make(chan watch.Event), stopped: make(chan struct{})}
	go f.run()
	return f
}

// ResultChan implements watch.Interface.
func (f *filter) ResultChan() <-chan watch.Event { return f.result }

// Stop implements watch.Interface. After it no event is processed: it would be older than the list that comes next.
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
		select {
		case f.result <- f.pass(event):
		case <-f.stopped: // there is no receiver any more; the upstream ends too
		}
	}
}

func (f *filter) pass(event watch.Event) watch.Event {
	switch event.Type {
	case watch.Added, watch.Modified, watch.Deleted:
	default:
		return event
	}
	object, ok := event.Object.(*metav1.PartialObjectMetadata)
	if !ok {
		return event
	}
	f.mu.Lock()
	defer f.mu.Unlock()
	if !f.ended {
		f.digest(event.Type, object)
	}
	// The bookmark has a new object: an annotation of the Secret could otherwise claim that the list is complete.
	bookmark := &metav1.PartialObjectMetadata{ObjectMeta: metav1.ObjectMeta{ResourceVersion: object.ResourceVersion}}
	return watch.Event{Type: watch.Bookmark, Object: bookmark}
}
