package secretversions

import (
	"sync"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/watch"
)

// filter is a watch whose objects were digested on the way. The reflector collects what a listing streams to it until
// the end: so it gets to see the versions only, as bookmarks, which move it on and of which it keeps nothing.
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

// Stop implements watch.Interface. After it nothing is digested any longer: an event from before would be news from
// yesterday to the listing that comes next.
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
		case <-f.stopped: // nobody receives any longer; the upstream ends too
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
	// A new object: the annotations of a Secret are its owner's, and one of them would tell that the listing is complete.
	bookmark := &metav1.PartialObjectMetadata{ObjectMeta: metav1.ObjectMeta{ResourceVersion: object.ResourceVersion}}
	return watch.Event{Type: watch.Bookmark, Object: bookmark}
}
