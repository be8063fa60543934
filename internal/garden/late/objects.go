package late

import (
	"context"
	"sync"
	"time"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/log"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"
	"sigs.k8s.io/controller-runtime/pkg/source"

	"github.com/espalier-dev/espalier/internal/process"
	"github.com/espalier-dev/espalier/internal/reflector"
)

// Objects watches the objects of a kind in a cluster whose connection may come late, end and change, such as the virtual cluster. The watch
// begins when there is a connection, and begins anew when the connection changes. Its methods may be called concurrently. All fields are
// required.
type Objects[T any] struct {
	// Kind is the kind of the objects.
	Kind schema.GroupVersionKind
	// Connect returns a client for the cluster. An error means that there is no connection now. Connect returns the same client as long as
	// the connection does not change.
	Connect func(ctx context.Context) (client.WithWatch, error)
	// Period is how often Connect is called.
	Period time.Duration
	// Keep returns the part of an object that the controllers depend on.
	Keep reflector.Keep[T]
	// Requests returns the requests for an object that appears, changes or disappears, or that is not known any more because the connection
	// ends. Before is nil for an object that was not known before, after is nil for an object that is not known now.
	Requests func(key types.NamespacedName, before, after *T) []reconcile.Request

	mu sync.Mutex // guards the fields below
	// table is nil as long as the objects are not known.
	table  *reflector.Table[T]
	queues []process.Queue
}

// All returns the objects, and false if they are not known now.
func (o *Objects[T]) All() ([]T, bool) {
	o.mu.Lock()
	table := o.table
	o.mu.Unlock()
	if table == nil {
		return nil, false
	}
	var all []T
	for _, each := range table.All() {
		all = append(all, each)
	}
	return all, true
}

// Source passes the results of Requests to a controller.
func (o *Objects[T]) Source() source.Source {
	return source.Func(func(_ context.Context, queue process.Queue) error {
		o.mu.Lock()
		defer o.mu.Unlock()
		o.queues = append(o.queues, queue)
		return nil
	})
}

// Start implements manager.Runnable.
func (o *Objects[T]) Start(ctx context.Context) error {
	var current client.WithWatch
	stop := func() {}
	defer func() { stop() }() //nolint:gocritic // stop is set below, so it must be read at the end
	for {
		connected, err := o.Connect(ctx)
		if err != nil {
			log.FromContext(ctx).V(1).Info("No connection for watch of objects", "kind", o.Kind.Kind, "reason", err.Error())
			connected = nil
		}
		if connected != current {
			stop()
			stop = o.follow(ctx, connected)
			current = connected
		}
		select {
		case <-ctx.Done():
			return nil
		case <-time.After(o.Period):
		}
	}
}

// follow begins to watch, and returns a function that ends the watch. Without a client it does nothing.
func (o *Objects[T]) follow(ctx context.Context, c client.WithWatch) (stop func()) {
	if c == nil {
		return func() {}
	}
	list := &unstructured.UnstructuredList{}
	list.SetGroupVersionKind(o.Kind.GroupVersion().WithKind(o.Kind.Kind + "List"))
	table := &reflector.Table[T]{Changed: o.request}
	table.Listed = func(before map[types.NamespacedName]T) {
		o.mu.Lock()
		o.table = table
		o.mu.Unlock()
		for key, each := range before {
			o.request(key, &each, nil)
		}
		for key, each := range table.All() {
			o.request(key, nil, &each)
		}
	}
	watching, cancel := context.WithCancel(ctx)
	var running sync.WaitGroup
	running.Go(func() {
		reflector.Run(watching, reflector.Options{
			Name: o.Kind.Kind + "s", Client: reflector.Objects(c, list, client.ListOptions{}), Log: log.FromContext(ctx),
		}, o.Keep, table)
	})
	return func() {
		cancel()
		running.Wait()
		o.mu.Lock()
		o.table = nil
		o.mu.Unlock()
		for key, each := range table.All() {
			o.request(key, &each, nil)
		}
	}
}

func (o *Objects[T]) request(key types.NamespacedName, before, after *T) {
	o.mu.Lock()
	defer o.mu.Unlock()
	for _, request := range o.Requests(key, before, after) {
		for _, queue := range o.queues {
			queue.Add(request)
		}
	}
}
