package binary

import (
	"errors"
	"fmt"
	"os"
	"slices"
	"strconv"
	"testing"
)

// ErrCutOff is the error of every request of a process that was cut off.
var ErrCutOff = errors.New("cut off from the API server")

// Cut is where a process is cut off: at its Nth counted request, before the API server sees it, or after the API server has
// executed it, when the answer is lost. The zero value never cuts off.
type Cut struct {
	Request int
	After   bool
}

// String names the cut.
func (c Cut) String() string {
	if c.After {
		return fmt.Sprintf("after request %d", c.Request)
	}
	return fmt.Sprintf("before request %d", c.Request)
}

// CutOff counts from now on, and cuts the process off at that request. The process stays cut off until Connect.
func (r *Requests) CutOff(at Cut) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.cut, r.counted, r.dead = at, 0, false
}

// SinceCutOff lists the requests since the last call of CutOff, as in Seen.
func (r *Requests) SinceCutOff() []string {
	r.mu.Lock()
	defer r.mu.Unlock()
	return slices.Clone(r.seen[max(0, len(r.seen)-r.counted):])
}

// Disconnect cuts the process off at once.
func (r *Requests) Disconnect() {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.dead = true
}

// Connect ends a cut, and reports whether it happened.
func (r *Requests) Connect() (happened bool) {
	r.mu.Lock()
	defer r.mu.Unlock()
	happened = r.dead
	r.cut, r.dead = Cut{}, false
	return happened
}

// IsCutOff reports whether the process is cut off now. A cut after a request happens when the request was executed: a caller that stops the
// process cancels its requests.
func (r *Requests) IsCutOff() bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.dead && !r.executing
}

// EveryCut calls run with a cut at every request, on both sides of it, until no cut happens any more because the run ends
// earlier; that is the undisturbed run. Run reports whether its cut happened. Every is the number of requests between two
// cuts: 1 tries all, as does any number with CRASH_SAMPLE=0, which `make crash` sets. CRASH_SEED chooses which requests are
// tried between the first one and the last one. It returns how many cuts happened.
func EveryCut(t *testing.T, every int, run func(t *testing.T, at Cut) (happened bool)) int {
	t.Helper()
	if os.Getenv("CRASH_SAMPLE") == "0" {
		every = 1
	}
	step := every
	if seed, err := strconv.Atoi(os.Getenv("CRASH_SEED")); err == nil && seed%every != 0 {
		step = seed % every
	}
	tried := 0
	for request := 1; ; request, step = request+step, every {
		for _, after := range []bool{false, true} {
			happened, at := false, Cut{Request: request, After: after}
			t.Run(at.String(), func(t *testing.T) { happened = run(t, at) })
			if t.Failed() || !happened { // without a cut, there are not that many requests
				return tried
			}
			tried++
		}
	}
}
