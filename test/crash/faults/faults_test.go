package faults_test

import (
	"maps"
	"net/http"
	"os"
	"slices"
	"testing"
	"time"

	. "github.com/onsi/gomega"

	"github.com/espalier-dev/espalier/test/binary"
	"github.com/espalier-dev/espalier/test/crash/harness"
	"github.com/espalier-dev/espalier/test/crash/scenarios"
)

func everything() bool { return os.Getenv("CRASH_FAULTS") == "all" }

// few returns the names of the scenarios that run with faults if CRASH_FAULTS is not "all".
func few() []string {
	if everything() {
		return []string{""}
	}
	return []string{
		"first apply, two", "first apply of a definition", "update that prunes, two", "immutable", "taker", "PersistentVolumeClaims",
		"repair of drift from",
	}
}

// fault is a kind of disturbance, of requests or of watches (streams). Either part may be nil.
type fault struct{ requests, streams func() binary.Fault }

func storm(every, times int64, concerns func(*http.Request) bool, disturb binary.Fault) fault {
	return fault{requests: func() binary.Fault { return harness.Storm(every, times, concerns, disturb) }}
}

func streams(disturb func(time.Duration) binary.Fault, duration time.Duration) fault {
	return fault{streams: func() binary.Fault { return disturb(duration) }}
}

func faults() map[string]fault {
	return map[string]fault{
		"every second write meets a conflict":      storm(2, 12, harness.Writes, harness.Refuse(http.StatusConflict)),
		"nothing but conflicts for a while":        storm(1, 12, harness.Writes, harness.Refuse(http.StatusConflict)),
		"too many requests, try again in a second": storm(2, 4, harness.Counts, harness.TooMany),
		"a burst of errors of the API server":      storm(1, 8, harness.Counts, harness.Refuse(http.StatusInternalServerError)),
		"now and then the API server is not available": storm(3, 10, harness.Counts,
			harness.Refuse(http.StatusServiceUnavailable)),
		"every third write is carried out and answered by a timeout": storm(3, 10, harness.Writes, harness.TimedOut),
		"every second write is carried out and its answer lost":      storm(2, 10, harness.Writes, harness.Lost),
		"half of an answer is lost":                                  storm(2, 10, harness.Counts, harness.Truncated),
		"some requests take a long time":                             storm(4, 3, harness.Counts, harness.Slow(2*time.Second)),
		"watches end all the time":                                   streams(harness.ShortStreams, 300*time.Millisecond),
		"watches end, and what was seen last is gone":                streams(harness.Expired, 300*time.Millisecond),
		"watches tell everything late":                               streams(harness.LateStreams, 400*time.Millisecond),
	}
}

func clockJumps() map[string][]time.Duration {
	const far = 2 * time.Hour
	return map[string][]time.Duration{
		"the clock jumps ahead":            {far},
		"the clock jumps back":             {-far},
		"the clock jumps ahead and back":   {far, -far},
		"the clock jumps back for a while": {-far, far},
	}
}

// jumping returns a function for Plan.During that makes the clock jump several times.
func jumping(jumps []time.Duration) func(*harness.Clock) error {
	return func(clock *harness.Clock) error {
		for _, each := range jumps {
			time.Sleep(30 * time.Millisecond)
			clock.Jump(each)
		}
		return nil
	}
}

func TestCrashFaultsChangeNothingAboutTheEnd(t *testing.T) {
	g, suite := NewWithT(t), scenarios.NewSuite(t, few()...)
	suite.References(t.Context(), 1)
	g.Expect(suite.Failures()).To(BeZero())
	plans, seed := plans(), harness.Number(t, "CRASH_SEED", 0)
	var runs []harness.Planned
	for number, name := range slices.Sorted(maps.Keys(plans)) {
		all := suite.Runs(name, plans[name])
		if !everything() {
			all = all[(number+seed)%len(all):][:1]
		}
		runs = append(runs, all...)
	}
	suite.Execute(t.Context(), runs)
	t.Logf("faults of connections and clocks: %d kinds, %d runs tried, %d passed", len(plans), len(runs), len(runs)-suite.Failures())
	g.Expect(suite.Failures()).To(BeZero())
}

// plans returns all faults, by their names.
func plans() map[string]func() harness.Plan {
	all := map[string]func() harness.Plan{}
	for name, fault := range faults() {
		all[name] = func() harness.Plan {
			plan := harness.Plan{Parallel: true}
			if fault.requests != nil {
				plan.Fault = fault.requests()
			}
			if fault.streams != nil {
				plan.Streams = fault.streams()
			}
			return plan
		}
	}
	for name, jumps := range clockJumps() {
		var sum time.Duration
		for _, each := range jumps {
			sum += each
		}
		all[name] = func() harness.Plan { return harness.Plan{Parallel: true, During: jumping(jumps), Behind: sum < 0} }
	}
	return all
}
