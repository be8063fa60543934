package secretversions

import (
	"context"
	"errors"

	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"
	"sigs.k8s.io/controller-runtime/pkg/source"

	"github.com/espalier-dev/espalier/internal/process"
)

// Changes is a source of reconcile requests for the creation, change or deletion of Secrets that have users. The controller starts its work
// after all Secrets have been listed. Only one controller may use it: a second one would receive the requests instead of the first.
func (t *Tracker) Changes(requests func(ctx context.Context, secret types.NamespacedName) []reconcile.Request) source.SyncingSource {
	return &subscription{tracker: t, start: func(ctx context.Context, controller process.Queue) {
		t.onChange.call.Store(new(func(secret types.NamespacedName) {
			for _, each := range requests(ctx, secret) {
				controller.Add(each)
			}
		}))
	}}
}

// Carriers is a source of reconcile requests for Secrets that carry the finalizer, each time such a Secret is created, changed or found in
// a list. Only one controller may use it: a second one would receive the requests instead of the first.
func (t *Tracker) Carriers() source.SyncingSource {
	return &subscription{tracker: t, start: func(_ context.Context, controller process.Queue) {
		add := func(secret types.NamespacedName) { controller.Add(reconcile.Request{NamespacedName: secret}) }
		t.onCarrier.call.Store(&add)
		for _, each := range t.streams {
			for _, secret := range each.table.carriers() {
				add(secret)
			}
		}
	}}
}

// subscription connects a controller to a Tracker.
type subscription struct {
	tracker *Tracker
	start   func(context.Context, process.Queue)
}

// Start implements source.Source.
func (s *subscription) Start(ctx context.Context, controller process.Queue) error {
	s.start(ctx, controller)
	return nil
}

// WaitForSync implements source.SyncingSource.
func (s *subscription) WaitForSync(ctx context.Context) error {
	for _, each := range s.tracker.streams {
		if err := each.await(ctx); err != nil && !errors.Is(ctx.Err(), context.Canceled) {
			return err
		}
	}
	return nil
}

// String implements fmt.Stringer.
func (s *subscription) String() string { return "secrets of the source" }
