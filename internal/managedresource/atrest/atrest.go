// Package atrest repeats the periodic check of objects at rest, which need no reconciliation, without the work queue of a controller.
//
// The queue of controller-runtime needs about 0.2 ms of processor time for each item: a timer, two B-trees, a logger with values and
// metrics. An object at rest needs 0.02 ms to be compared with the caches. With a thousand ManagedResources and two controllers, the queue
// would cause most of the processor time of an idle process.
package atrest

import (
	"context"
	"sync"
	"time"

	"k8s.io/apimachinery/pkg/types"
	"k8s.io/utils/clock"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"
	"sigs.k8s.io/controller-runtime/pkg/source"

	"github.com/espalier-dev/espalier/internal/process"
)

// checksPerPeriod is how many times in each Period the Sweep searches for objects whose check is due. So a check is late by at most Period
// divided by checksPerPeriod.
const checksPerPeriod = 6

// Sweep wraps a Reconciler. If the Reconciler returns only RequeueAfter with the value of Period, the Sweep does not requeue the object.
// Instead, it calls AtRest once per Period, and requeues the object when AtRest returns false. The Sweep passes on all other results and
// errors unchanged. The exported fields are set once, before the start. A restart loses nothing, because a controller reconciles every
// object when it starts.
type Sweep struct {
	Inner reconcile.Reconciler
	// AtRest reports whether a reconciliation would find nothing to do. It must be fast and must not send requests. It is never called for
	// an object that is being reconciled.
	AtRest func(ctx context.Context, name types.NamespacedName) bool
	// Period is the time between two checks of an object, and the value of RequeueAfter that the Sweep replaces. It must be positive.
	Period time.Duration
	Clock  clock.WithTicker

	mu  sync.Mutex
	due map[reconcile.Request]time.Time // Guarded by mu; the objects at rest, with the time of their next check.
}

// Reconcile implements reconcile.Reconciler.
func (s *Sweep) Reconcile(ctx context.Context, request ctrl.Request) (ctrl.Result, error) {
	s.mu.Lock()
	delete(s.due, request) // so that AtRest is never called for an object while it is reconciled
	s.mu.Unlock()
	result, err := s.Inner.Reconcile(ctx, request)
	if err != nil || result != (ctrl.Result{RequeueAfter: s.Period}) {
		return result, err
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.due == nil {
		s.due = map[reconcile.Request]time.Time{}
	}
	s.due[request] = s.Clock.Now().Add(s.Period)
	return ctrl.Result{}, nil
}

// Source returns a source, which the controller must watch. It checks the objects while the controller runs.
func (s *Sweep) Source() source.Source {
	return source.Func(func(ctx context.Context, queue process.Queue) error {
		go s.run(ctx, queue.Add)
		return nil
	})
}

func (s *Sweep) run(ctx context.Context, reconcileAgain func(reconcile.Request)) {
	ticker := s.Clock.NewTicker(max(s.Period/checksPerPeriod, time.Millisecond))
	defer ticker.Stop()
	for {
		select {
		case <-ctx.Done():
			return
		case <-ticker.C():
			s.check(ctx, reconcileAgain)
		}
	}
}

// check checks the objects that are due.
func (s *Sweep) check(ctx context.Context, reconcileAgain func(reconcile.Request)) {
	for _, request := range s.dueNow() {
		if !s.stillAtRest(ctx, request) {
			reconcileAgain(request)
		}
	}
}

// dueNow returns the objects whose check is due.
func (s *Sweep) dueNow() []reconcile.Request {
	s.mu.Lock()
	defer s.mu.Unlock()
	now := s.Clock.Now()
	var requests []reconcile.Request
	for request, at := range s.due {
		if !now.Before(at) {
			requests = append(requests, request)
		}
	}
	return requests
}

// stillAtRest checks one object, unless it is being reconciled. If it is not at rest, the next check comes after its reconciliation.
func (s *Sweep) stillAtRest(ctx context.Context, request reconcile.Request) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	if _, rests := s.due[request]; !rests {
		return true
	}
	if !s.AtRest(ctx, request.NamespacedName) {
		delete(s.due, request)
		return false
	}
	s.due[request] = s.Clock.Now().Add(s.Period)
	return true
}
