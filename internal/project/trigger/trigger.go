// Package trigger brings what happens outside of a controller into its queue. It holds nothing that a controller's own
// watches could bring.
package trigger

import (
	"context"
	"sync"

	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/util/workqueue"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"
	"sigs.k8s.io/controller-runtime/pkg/source"
)

// Trigger makes a controller look at objects without namespace. What comes before the controller has started waits for it.
// Safe for concurrent use.
type Trigger struct {
	mu      sync.Mutex // guards what follows
	queue   workqueue.TypedRateLimitingInterface[reconcile.Request]
	waiting map[string]struct{}
}

// Add makes the controller look at an object.
func (t *Trigger) Add(name string) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.queue != nil {
		t.queue.Add(request(name))
		return
	}
	if t.waiting == nil {
		t.waiting = map[string]struct{}{}
	}
	t.waiting[name] = struct{}{}
}

// Source is to be watched by the one controller that the Trigger is for.
func (t *Trigger) Source() source.Source {
	return source.Func(func(_ context.Context, queue workqueue.TypedRateLimitingInterface[reconcile.Request]) error {
		t.mu.Lock()
		defer t.mu.Unlock()
		t.queue = queue
		for name := range t.waiting {
			queue.Add(request(name))
		}
		t.waiting = nil
		return nil
	})
}

func request(name string) reconcile.Request {
	return reconcile.Request{NamespacedName: types.NamespacedName{Name: name}}
}
