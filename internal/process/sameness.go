package process

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/utils/clock"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

// samenessPause is the minimum time between two attempts to determine whether source and target are one cluster.
const samenessPause = 10 * time.Second

// Sameness determines whether source and target are one cluster. If the API servers do not answer this at start, later calls ask them
// again. Its methods may be called concurrently.
type Sameness struct {
	clock clock.PassiveClock
	ask   func(context.Context) (bool, error)

	mu     sync.Mutex // guards the fields below
	known  bool
	same   bool
	err    error // not nil while the answer is unknown
	asking bool
	nextAt time.Time
}

// KnownSameness returns a Sameness that knows its answer and sends no request.
func KnownSameness(same bool) *Sameness { return &Sameness{known: true, same: same} }

// newSameness returns a Sameness. If both sides have the same address, it knows the answer. Otherwise it compares the clusters by requests
// to both, and sends the first requests at once.
func newSameness(ctx context.Context, passive clock.PassiveClock, source, target *Connection) *Sameness {
	if source.Config.Host == target.Config.Host {
		return KnownSameness(true)
	}
	s := &Sameness{
		clock: passive, err: errNotAsked, ask: func(ctx context.Context) (bool, error) { return compareClusters(ctx, source, target) },
	}
	_, _ = s.Ask(ctx) // the error is stored, and later calls ask again
	return s
}

var errNotAsked = errors.New("it is not known yet whether source and target are one cluster")

// Ask reports whether source and target are one cluster. While the answer is unknown, Ask sends requests, but at most once in 10 s. If the
// answer stays unknown, Ask returns an error that names the remedy.
func (s *Sameness) Ask(ctx context.Context) (bool, error) {
	if !s.mayAsk() {
		s.mu.Lock()
		defer s.mu.Unlock()
		return s.same, s.err
	}
	same, err := s.ask(ctx) // without the lock, so that other callers do not wait for the API servers
	s.mu.Lock()
	defer s.mu.Unlock()
	s.asking = false
	if err != nil {
		s.err = fmt.Errorf("it is not known whether source and target are one cluster: %w; both must let this process get namespace kube-system",
			err)
		s.nextAt = s.clock.Now().Add(samenessPause)
		return false, s.err
	}
	s.known, s.same, s.err = true, same, nil
	return same, nil
}

// mayAsk reports whether the caller must ask the API servers, and prevents other callers from asking until the answer is stored.
func (s *Sameness) mayAsk() bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.known || s.asking || s.clock.Now().Before(s.nextAt) {
		return false
	}
	s.asking = true
	return true
}

// Assume is like Ask, for checks of access: while the answer is unknown, it reports that source and target are one cluster.
func (s *Sameness) Assume(ctx context.Context) bool {
	same, err := s.Ask(ctx)
	return same || err != nil
}

// Answer returns the answer without a request, and whether the answer is known.
func (s *Sameness) Answer() (same, known bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.same, s.known
}

// compareClusters compares the UIDs of the clusters' kube-system namespaces. It does not compare addresses, because one cluster may have
// two addresses. If the process may not read one of the namespaces, compareClusters compares the public keys for ServiceAccount tokens.
// API servers show these keys to every ServiceAccount unless an administrator has changed that.
func compareClusters(ctx context.Context, source, target *Connection) (bool, error) {
	ctx, cancel := context.WithTimeout(ctx, accessTimeout)
	defer cancel()
	one, err := namespaceIdentity(ctx, "source", source)
	var two string
	if err == nil {
		two, err = namespaceIdentity(ctx, "target", target)
	}
	if !apierrors.IsForbidden(err) {
		return one == two, err
	}
	if one := tokenKeys(ctx, source); one != "" {
		if two := tokenKeys(ctx, target); two != "" {
			return one == two, nil
		}
	}
	return false, err
}

// namespaceIdentity returns the UID of namespace kube-system.
func namespaceIdentity(ctx context.Context, side string, cluster *Connection) (string, error) {
	found := metadataOf(schema.GroupVersionKind{Version: "v1", Kind: "Namespace"})
	if err := cluster.Client.Get(ctx, client.ObjectKey{Name: "kube-system"}, found); err != nil {
		return "", fmt.Errorf("read namespace kube-system of the %s: %w", side, err)
	}
	return string(found.GetUID()), nil
}

// tokenKeys returns the public keys that verify the ServiceAccount tokens of a cluster; empty if its API server does not show them.
func tokenKeys(ctx context.Context, cluster *Connection) string {
	keys, err := cluster.Mapper.client.RESTClient().Get().AbsPath("/openid/v1/jwks").SetHeader("Accept", "*/*").Do(ctx).Raw()
	if err != nil {
		return ""
	}
	return string(keys)
}
