package served

import (
	"context"
	"sync"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
)

// sharedFor is how long a listing is shared.
const sharedFor = 5 * time.Second

// shared gives all callers within some seconds the same listing: it covers the whole cluster, and there may be thousands of callers.
type shared struct {
	list func(context.Context, metav1.ListOptions) (runtime.Object, error)

	mu   sync.Mutex // guards last. It stays locked during a listing, so that other callers wait for its result
	last runtime.Object
}

// get returns a listing that began at most 5 seconds ago. The caller must not change it.
func (s *shared) get(ctx context.Context) (runtime.Object, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.last != nil {
		return s.last, nil
	}
	expiry := time.NewTimer(sharedFor)
	list, err := s.list(ctx, metav1.ListOptions{})
	if err != nil {
		expiry.Stop()
		return nil, err
	}
	s.last = list
	go func() {
		<-expiry.C
		s.mu.Lock()
		defer s.mu.Unlock()
		s.last = nil
	}()
	return list, nil
}
