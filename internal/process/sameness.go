package process

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/utils/clock"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

// samenessPause is the least time between two attempts to find out whether source and target are one cluster.
const samenessPause = 10 * time.Second

// Sameness is the answer to the question whether source and target are one cluster. If the API servers do not say so at
// start, it stays open, and later calls ask them again. Its methods may be called at the same time.
type Sameness struct {
	clock clock.PassiveClock
	ask   func(context.Context) (bool, error)

	mu     sync.Mutex // guards what follows
	known  bool
	same   bool
	err    error // not nil while the answer is not known
	asking bool
	nextAt time.Time
}

// KnownSameness is an answer that needs no request.
func KnownSameness(same bool) *Sameness { return &Sameness{known: true, same: same} }

// askedSameness compares the clusters by requests to both, and asks them at once.
func askedSameness(ctx context.Context, passive clock.PassiveClock, source, target client.Reader) *Sameness {
	s := &Sameness{clock: passive, err: errNotAsked, ask: func(ctx context.Context) (bool, error) { return compareClusters(ctx, source, target) }}
	_, _ = s.Ask(ctx) // the error is kept, and later calls ask again
	return s
}

var errNotAsked = errors.New("it is not known yet whether source and target are one cluster")

// Ask returns whether source and target are one cluster. While that is not known it sends requests, at most once in 10 s,
// and returns an error with the remedy.
func (s *Sameness) Ask(ctx context.Context) (bool, error) {
	if !s.mayAsk() {
		s.mu.Lock()
		defer s.mu.Unlock()
		return s.same, s.err
	}
	same, err := s.ask(ctx) // without the lock: other callers do not wait for the API servers
	s.mu.Lock()
	defer s.mu.Unlock()
	s.asking = false
	if err != nil {
		s.err = fmt.Errorf("it is not known whether source and target are one cluster: %w; both must let this process get namespace kube-system", err)
		s.nextAt = s.clock.Now().Add(samenessPause)
		return false, s.err
	}
	s.known, s.same, s.err = true, same, nil
	return same, nil
}

// mayAsk reports whether the caller has to ask the API servers, and keeps others from it until the answer is noted.
func (s *Sameness) mayAsk() bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.known || s.asking || s.clock.Now().Before(s.nextAt) {
		return false
	}
	s.asking = true
	return true
}

// Assume is Ask for guards: while the answer is not known, it reports that source and target are one cluster.
func (s *Sameness) Assume(ctx context.Context) bool {
	same, err := s.Ask(ctx)
	return same || err != nil
}

// Answer returns what is known already, without a request.
func (s *Sameness) Answer() (same, known bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.same, s.known
}

// compareClusters compares the identity of the clusters' kube-system namespaces: one cluster may have two addresses.
func compareClusters(ctx context.Context, source, target client.Reader) (bool, error) {
	ctx, cancel := context.WithTimeout(ctx, accessTimeout)
	defer cancel()
	namespace := schema.GroupVersionKind{Version: "v1", Kind: "Namespace"}
	one, two := metadataOf(namespace), metadataOf(namespace)
	key := client.ObjectKey{Name: "kube-system"}
	if err := source.Get(ctx, key, one); err != nil {
		return false, fmt.Errorf("read namespace kube-system of the source: %w", err)
	}
	if err := target.Get(ctx, key, two); err != nil {
		return false, fmt.Errorf("read namespace kube-system of the target: %w", err)
	}
	return one.GetUID() == two.GetUID(), nil
}
