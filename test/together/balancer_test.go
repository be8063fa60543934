package together_test

import (
	"context"
	"errors"
	"io"
	"net"
	"net/http"
	"slices"
	"sync"
	"testing"
	"time"

	. "github.com/onsi/gomega"

	"github.com/espalier-dev/espalier/test/binary"
)

// balancer replaces a Service: it forwards each new connection to a replica that is ready, or to the other one if the first does not accept
// it. It does not touch open connections.
type balancer struct {
	listener net.Listener
	mu       sync.Mutex
	replicas []*replica
	next     int
}

// newBalancer returns a balancer that listens at a port of the loopback address.
func newBalancer(t *testing.T) *balancer {
	t.Helper()
	listener, err := (&net.ListenConfig{}).Listen(t.Context(), "tcp", "127.0.0.1:0")
	NewWithT(t).Expect(err).NotTo(HaveOccurred())
	b := &balancer{listener: listener}
	t.Cleanup(func() { _ = listener.Close() })
	go func() {
		for {
			connection, err := listener.Accept()
			if err != nil {
				return
			}
			go b.pass(connection)
		}
	}()
	return b
}

func (b *balancer) url() string { return "https://" + b.listener.Addr().String() }

// The settings of the readiness probe, from the manifests and the defaults of Kubernetes: the time limit of a response, and the number of
// consecutive failures after which a replica is not ready.
const (
	probeTimeout     = 5 * time.Second
	failureThreshold = 3
)

// follow asks the replicas regularly whether they are ready, as kubelets and kube-proxy together do.
func (b *balancer) follow(ctx context.Context, replicas ...*replica) {
	b.mu.Lock()
	b.replicas = replicas
	b.mu.Unlock()
	for _, each := range replicas {
		go func() { // a replica that answers late must not delay the question to the other one
			failures := failureThreshold
			for ctx.Err() == nil {
				failures++
				if each.isReady(ctx) {
					failures = 0
				}
				b.mu.Lock()
				each.ready = failures < failureThreshold
				b.mu.Unlock()
				select {
				case <-ctx.Done():
				case <-time.After(50 * time.Millisecond):
				}
			}
		}()
	}
}

// allReady reports whether both replicas get new connections.
func (b *balancer) allReady() bool {
	b.mu.Lock()
	defer b.mu.Unlock()
	return len(b.replicas) > 0 && !slices.ContainsFunc(b.replicas, func(each *replica) bool { return !each.ready })
}

// choose returns the replica for the next connection; nil if no replica other than useless is ready.
func (b *balancer) choose(useless *replica) *replica {
	b.mu.Lock()
	defer b.mu.Unlock()
	for range b.replicas {
		b.next++
		if each := b.replicas[b.next%len(b.replicas)]; each.ready && each != useless {
			return each
		}
	}
	return nil
}

// dial connects to a replica.
func (b *balancer) dial() (net.Conn, *replica, error) {
	err := errors.New("no replica is ready")
	var chosen *replica
	for range 2 { // each of the two replicas
		if chosen = b.choose(chosen); chosen == nil {
			break
		}
		var to net.Conn
		if to, err = (&net.Dialer{Timeout: binary.Patience}).DialContext(context.Background(), "tcp", chosen.address); err == nil {
			return to, chosen, nil
		}
	}
	return nil, nil, err
}

// busiest waits until both replicas have connections. It returns the replica that has more, and the other one.
func (b *balancer) busiest(g Gomega) (busy, other *replica) {
	g.Eventually(func() bool {
		return b.replicas[0].connections.Load() > 0 && b.replicas[1].connections.Load() > 0
	}, binary.Patience).Should(BeTrue(), "a replica has no connection")
	busy, other = b.replicas[0], b.replicas[1]
	if other.connections.Load() > busy.connections.Load() {
		busy, other = other, busy
	}
	return busy, other
}

func (b *balancer) pass(from net.Conn) {
	defer func() { _ = from.Close() }()
	to, chosen, err := b.dial()
	if err != nil {
		return
	}
	defer func() { _ = to.Close() }()
	chosen.connections.Add(1)
	defer chosen.connections.Add(-1)
	var copying sync.WaitGroup
	for _, each := range [][2]net.Conn{{from, to}, {to, from}} {
		copying.Go(func() {
			_, _ = io.Copy(each[1], each[0])
			_ = each[0].Close()
			_ = each[1].Close()
		})
	}
	copying.Wait()
}

// isReady asks a replica's readiness probe.
func (r *replica) isReady(ctx context.Context) bool {
	ctx, cancel := context.WithTimeout(ctx, probeTimeout)
	defer cancel()
	request, err := http.NewRequestWithContext(ctx, http.MethodGet, r.probe+"/readyz", http.NoBody)
	if err != nil {
		return false
	}
	response, err := http.DefaultClient.Do(request)
	if err != nil {
		return false
	}
	_ = response.Body.Close()
	return response.StatusCode == http.StatusOK
}
