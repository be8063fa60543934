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

// Cut is the point at which a process is cut off: at its Nth counted request, either before the API server gets the request, or after the
// API server has executed it, so that only the response is lost. The zero value never cuts off.
type Cut struct {
	Request int
	After   bool
}

// String returns the name of the cut in the names of subtests.
func (c Cut) String() string {
	if c.After {
		return fmt.Sprintf("after request %d", c.Request)
	}
	return fmt.Sprintf("before request %d", c.Request)
}

// CutOff starts to count, and cuts the process off from the API servers at the given request. The process stays cut off until Connect.
func (r *Requests) CutOff(at Cut) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.cut, r.counted, r.dead = at, 0, false
}

// SinceCutOff returns the requests since the last call of CutOff, in the form of Seen.
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

// Connect ends a cut or removes a planned one, and reports whether the cut happened.
func (r *Requests) Connect() (happened bool) {
	r.mu.Lock()
	defer r.mu.Unlock()
	happened = r.dead
	r.cut, r.dead = Cut{}, false
	return happened
}

// IsCutOff reports whether the process is cut off now. For a cut after a request, this is true only when the request was executed: if a
// caller stopped the process earlier, this would cancel the request.
func (r *Requests) IsCutOff() bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.dead && !r.executing
}

// Drive calls run until a call writes nothing or the process is cut off, at most limit times. It returns the error of a call that was not
// cut off.
func (r *Requests) Drive(limit int, run func() error) error {
	for range limit {
		r.Reset()
		err := run()
		if r.IsCutOff() {
			return nil
		}
		if err != nil || len(r.Writes()) == 0 {
			return err
		}
	}
	return fmt.Errorf("each of %d runs writes something, the last one: %v", limit, r.Writes())
}

// EveryCut calls run with a cut before and after every request, until no cut happens because the run ends earlier; that is the undisturbed
// run. The function run reports whether its cut happened. The argument every is the number of requests between two cuts: 1 tries all
// requests, as does any number with CRASH_SAMPLE=0, which `make crash` sets. CRASH_SEED chooses which of the requests after the first are
// tried. EveryCut returns the number of cuts that happened.
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
			if t.Failed() || !happened { // if no cut happened, the run sends fewer requests
				return tried
			}
			tried++
		}
	}
}
