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

// Side says whether a request is cut off before or after its execution.
type Side string

const (
	// Before means that the API server never receives the request.
	Before Side = "before"
	// After means that the API server executes the request, and the response is lost.
	After Side = "after"
)

// Cut is the request at which a process is cut off. The zero value means never.
type Cut struct {
	// At is the number of the request, starting with 1.
	At   int
	Side Side
}

// String describes the cut.
func (c Cut) String() string {
	if c.At == 0 {
		return "nothing cut"
	}
	return fmt.Sprintf("%s request %d", c.Side, c.At)
}

// errCut is the error for the requests of a process that is cut off.
var errCut = errors.New("connection refused: the process was cut off")

// Fault executes a request instead of the connection, which is next, or refuses it.
type Fault func(request *http.Request, next http.RoundTripper) (*http.Response, error)

// Gate is between a process and its API servers.
type Gate struct {
	// counts reports which requests count; streams, if not nil, executes the requests that open a watch.
	counts  func(*http.Request) bool
	streams Fault

	mu    sync.Mutex
	armed bool
	cut   Cut
	fault Fault
	// count is the number of requests that count since the gate was armed, seen lists them; deletions lists all deletion requests, armed or
	// not.
	count     int
	seen      []string
	deletions []string
	inFlight  int
	// last is when the last important request ended; ready is true if the process has started to watch sets.
	last  time.Time
	ready bool

	// dead is done when the process is cut off.
	dead context.Context //nolint:containedctx // it is the context of the process
	kill context.CancelFunc
}

// NewGate returns a gate that passes everything. If streams is not nil, it executes watches.
func NewGate(counts func(*http.Request) bool, streams Fault) *Gate {
	dead, kill := context.WithCancel(context.Background())
	return &Gate{counts: counts, streams: streams, dead: dead, kill: kill, last: time.Now()}
}

// Arm starts to count for a cut. From now on, the fault, if not nil, executes the requests.
func (g *Gate) Arm(cut Cut, fault Fault) {
	g.mu.Lock()
	defer g.mu.Unlock()
	g.armed, g.cut, g.fault, g.count, g.seen = true, cut, fault, 0, nil
}

// Kill cuts the process off at once.
func (g *Gate) Kill() { g.kill() }

// Dead reports whether the process was cut off.
func (g *Gate) Dead() bool { return g.dead.Err() != nil }

// Seen lists the requests that counted, as "VERB path".
func (g *Gate) Seen() []string {
	g.mu.Lock()
	defer g.mu.Unlock()
	return append([]string(nil), g.seen...)
}

// Deletions lists the deletion requests, as "VERB path".
func (g *Gate) Deletions() []string {
	g.mu.Lock()
	defer g.mu.Unlock()
	return append([]string(nil), g.deletions...)
}

// Quiet returns for how long there was no important request. It is 0 for a process that has not started to watch sets.
func (g *Gate) Quiet() time.Duration {
	g.mu.Lock()
	defer g.mu.Unlock()
	if g.inFlight > 0 || !g.ready {
		return 0
	}
	return time.Since(g.last)
}

// Wrap puts the gate in front of a connection.
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

// unlessDead hides a response from a process that was cut off while it waited.
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
		return p.next.RoundTrip(request)
	}
	return fault(request, p.next)
}

// watch opens a watch, which ends with the process.
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
	return s.ReadCloser.Close()
}

// enter records a request and returns the cut, if it must be made here, and the fault that executes the request. The caller must call the
// returned function when the request is over.
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
