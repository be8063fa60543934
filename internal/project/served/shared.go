package served

import (
	"context"
	"sync"
	"time"

	"k8s.io/apimachinery/pkg/runtime"
)

// sharedFor is how long a listing is shared.
const sharedFor = 5 * time.Second

// shared gives all callers within some seconds the same listing: it covers the whole cluster, and there may be thousands of callers.
type shared struct {
	list func(context.Context) ([]runtime.Object, error)

	mu   sync.Mutex // guards last and has. It stays locked during a listing, so that other callers wait for its result
	last []runtime.Object
	has  bool
}

// get returns a listing that began at most 5 seconds ago. The caller must not change it.
func (s *shared) get(ctx context.Context) ([]runtime.Object, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.has {
		return s.last, nil
	}
	expiry := time.NewTimer(sharedFor)
	list, err := s.list(ctx)
	if err != nil {
		expiry.Stop()
		return nil, err
	}
	s.last, s.has = list, true
	go func() {
		<-expiry.C
		s.mu.Lock()
		defer s.mu.Unlock()
		s.last, s.has = nil, false
	}()
	return list, nil
}
