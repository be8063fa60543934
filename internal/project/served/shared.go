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

// shared is one listing for all who ask for it within some seconds: it is of the whole cluster, and thousands may ask.
type shared struct {
	list func(context.Context, metav1.ListOptions) (runtime.Object, error)

	mu   sync.Mutex // guards what follows, and is held while listing, so that the others wait for that listing
	last runtime.Object
}

// get returns a listing that began at most some seconds ago. It must not be changed.
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
