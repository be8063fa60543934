// Package trigger adds requests to a controller's queue from outside of the controller. It is only for events that the controller's own
// watches do not deliver.
package trigger

import (
	"context"
	"sync"

	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"
	"sigs.k8s.io/controller-runtime/pkg/source"

	"github.com/espalier-dev/espalier/internal/process"
)

// Trigger enqueues cluster-scoped objects. Names that are added before the controller has started are enqueued at its start. It is safe for
// concurrent use.
type Trigger struct {
	mu      sync.Mutex // guards the fields below
	queue   process.Queue
	waiting map[string]struct{}
}

// Add enqueues an object.
func (t *Trigger) Add(name string) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.queue != nil {
		t.queue.Add(Request(name))
		return
	}
	if t.waiting == nil {
		t.waiting = map[string]struct{}{}
	}
	t.waiting[name] = struct{}{}
}

// Source returns the source for the one controller that the Trigger is for.
func (t *Trigger) Source() source.Source {
	return source.Func(func(_ context.Context, queue process.Queue) error {
		t.mu.Lock()
		defer t.mu.Unlock()
		t.queue = queue
		for name := range t.waiting {
			queue.Add(Request(name))
		}
		t.waiting = nil
		return nil
	})
}

// Request is the request for a cluster-scoped object.
func Request(name string) reconcile.Request {
	return reconcile.Request{NamespacedName: types.NamespacedName{Name: name}}
}
