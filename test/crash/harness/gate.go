package harness

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"strings"
	"sync"
	"time"
)

// Side is on which side of its execution a request is cut off.
type Side string

const (
	// Before means that the API server never sees the request.
	Before Side = "before"
	// After means that the API server carries it out, and the answer is lost.
	After Side = "after"
)

// Cut is where a process is cut off. The zero value never is.
type Cut struct {
	// At is the number of the request, beginning with 1.
	At   int
	Side Side
}

// String names the cut.
func (c Cut) String() string {
	if c.At == 0 {
		return "nothing cut"
	}
	return fmt.Sprintf("%s request %d", c.Side, c.At)
}

// errCut is what a process sees that is cut off.
var errCut = errors.New("connection refused: the process was cut off")

// Fault carries out a request in place of the connection, which is next, or refuses to.
type Fault func(request *http.Request, next http.RoundTripper) (*http.Response, error)

// Gate stands between a process and its API servers.
type Gate struct {
	// counts tells which requests count; streams, if it is not nil, carries out those that open a watch.
	counts  func(*http.Request) bool
	streams Fault

	mu    sync.Mutex
	armed bool
	cut   Cut
	fault Fault
	// count is how many requests that count were sent since the gate was armed, seen is what they were, deletions are
	// all that ask for a deletion, armed or not.
	count     int
	seen      []string
	deletions []string
	inFlight  int
	// last is when the last request of importance ended; ready tells that the process has begun to watch sets.
	last  time.Time
	ready bool

	// dead is done when the process is cut off.
	dead context.Context //nolint:containedctx // it is the process's
	kill context.CancelFunc
}

// NewGate returns a gate that lets everything pass, but for watches, which streams carries out if it is not nil.
func NewGate(counts func(*http.Request) bool, streams Fault) *Gate {
	dead, kill := context.WithCancel(context.Background())
	return &Gate{counts: counts, streams: streams, dead: dead, kill: kill, last: time.Now()}
}

// Arm begins to count, for a cut, and lets a fault, if it is not nil, carry out what is sent from now on.
func (g *Gate) Arm(cut Cut, fault Fault) {
	g.mu.Lock()
	defer g.mu.Unlock()
	g.armed, g.cut, g.fault, g.count, g.seen = true, cut, fault, 0, nil
}

// Kill cuts the process off at once.
func (g *Gate) Kill() { g.kill() }

// Dead tells whether the process was cut off.
func (g *Gate) Dead() bool { return g.dead.Err() != nil }

// Seen lists the requests that counted, as "VERB path".
func (g *Gate) Seen() []string {
	g.mu.Lock()
	defer g.mu.Unlock()
	return append([]string(nil), g.seen...)
}

// Deletions lists what was asked to be deleted, as "VERB path".
func (g *Gate) Deletions() []string {
	g.mu.Lock()
	defer g.mu.Unlock()
	return append([]string(nil), g.deletions...)
}

// Quiet tells for how long nothing of importance has been in flight. A process that has not begun to watch sets is not
// quiet.
func (g *Gate) Quiet() time.Duration {
	g.mu.Lock()
	defer g.mu.Unlock()
	if g.inFlight > 0 || !g.ready {
		return 0
	}
	return time.Since(g.last)
}

// Wrap puts the gate before a connection.
func (g *Gate) Wrap(next http.RoundTripper) http.RoundTripper { return &passage{g, next} }

type passage struct {
	gate *Gate
	next http.RoundTripper
}

// RoundTrip implements http.RoundTripper.
func (p *passage) RoundTrip(request *http.Request) (*http.Response, error) {
	g := p.gate
	if g.Dead() {
		return nil, errCut
	}
	if watches(request) {
		return p.watch(request)
	}
	cut, fault, leave := g.enter(request)
	defer leave()
	if cut.Side == Before {
		g.Kill()
		return nil, errCut
	}
	response, err := p.send(request, fault)
	if cut.Side == After {
		g.Kill()
	}
	return p.unlessDead(response, err)
}

// unlessDead keeps an answer from a process that was cut off while it waited.
func (p *passage) unlessDead(response *http.Response, err error) (*http.Response, error) {
	if p.gate.Dead() {
		if err == nil {
			_ = response.Body.Close()
		}
		return nil, errCut
	}
	return response, err
}

func (p *passage) send(request *http.Request, fault Fault) (*http.Response, error) {
	if fault == nil {
		return p.next.RoundTrip(request) //nolint:wrapcheck // a transport passes errors as they are
	}
	return fault(request, p.next)
}

// watch opens a stream, which ends with the process.
func (p *passage) watch(request *http.Request) (*http.Response, error) {
	ctx, cancel := context.WithCancel(request.Context())
	stop := context.AfterFunc(p.gate.dead, cancel)
	response, err := p.unlessDead(p.send(request.WithContext(ctx), p.gate.streams))
	if err != nil {
		stop()
		cancel()
		return nil, err
	}
	response.Body = &stream{response.Body, func() { stop(); cancel() }}
	if strings.Contains(request.URL.Path, "/managedresources") {
		p.gate.nowReady()
	}
	return response, nil
}

// stream is the body of a watch.
type stream struct {
	io.ReadCloser
	stop func()
}

// Close implements io.Closer.
func (s *stream) Close() error {
	s.stop()
	return s.ReadCloser.Close() //nolint:wrapcheck // a transport passes errors as they are
}

// enter notes a request and returns the cut, if it is to be made here, and what carries the request out. The function that
// it returns is to be called when the request is over.
func (g *Gate) enter(request *http.Request) (Cut, Fault, func()) {
	counts := g.counts(request)
	g.mu.Lock()
	defer g.mu.Unlock()
	what := request.Method + " " + request.URL.Path
	if request.Method == http.MethodDelete {
		g.deletions = append(g.deletions, what)
	}
	leave := func() {}
	if counts || Counts(request) {
		g.inFlight++
		leave = g.leave
	}
	if !g.armed || !counts {
		return Cut{}, g.fault, leave
	}
	g.count++
	g.seen = append(g.seen, what)
	if g.count == g.cut.At {
		return g.cut, g.fault, leave
	}
	return Cut{}, g.fault, leave
}

func (g *Gate) leave() {
	g.mu.Lock()
	defer g.mu.Unlock()
	g.inFlight--
	g.last = time.Now()
}

func (g *Gate) nowReady() {
	g.mu.Lock()
	defer g.mu.Unlock()
	if !g.ready {
		g.ready, g.last = true, time.Now()
	}
}
