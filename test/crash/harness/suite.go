package harness

import (
	"context"
	"fmt"
	"io"
	"math/rand/v2"
	"os"
	"slices"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	. "github.com/onsi/gomega"
	"k8s.io/client-go/util/workqueue"

	"github.com/espalier-dev/espalier/internal/managedresource/managedresourcetest"
	"github.com/espalier-dev/espalier/test/binary"
)

// Suite runs scenarios many times and counts the results.
type Suite struct {
	// Workers is the number of concurrent runs.
	Workers int
	// Out receives the failures and the progress.
	Out io.Writer

	entries  []*entry
	failures atomic.Int64
	mu       sync.Mutex // for Out and the results of entries
}

// entry is a scenario in a suite, with its results.
type entry struct {
	scenario  Scenario
	env       *managedresourcetest.Env
	reference *Reference
	// tried and passed count points. twice counts the points in which two processes were cut off.
	tried, passed, twice int
	took                 time.Duration
}

// Add adds a scenario. All its runs use the permissions of the controller of the env.
func (s *Suite) Add(scenario Scenario, env *managedresourcetest.Env) {
	s.entries = append(s.entries, &entry{scenario: scenario, env: env})
}

// Size returns the number of scenarios.
func (s *Suite) Size() int { return len(s.entries) }

// Failures returns the number of failures.
func (s *Suite) Failures() int { return int(s.failures.Load()) }

func (s *Suite) fail(what string, err error) {
	s.failures.Add(1)
	s.mu.Lock()
	defer s.mu.Unlock()
	_, _ = fmt.Fprintf(s.Out, "FAILED %s: %v\n", what, err)
}

// References runs all scenarios undisturbed, until the given number of runs of each scenario agree.
func (s *Suite) References(ctx context.Context, times int) {
	s.each(len(s.entries), func(i int) {
		e := s.entries[i]
		reference, err := Dry(ctx, e.env, e.scenario, times)
		if err != nil {
			s.fail(e.scenario.Name, err)
			return
		}
		e.reference = reference
	})
}

// Planned is a planned run of a scenario.
type Planned struct {
	entry *entry
	// Name describes the plan.
	Name string
	Plan Plan
	// isPoint is true for a point: its first cut must be made, and the table counts it.
	isPoint bool
}

// Points plans three runs for each request of every scenario: a cut before the request, a cut after it, and a run in which the process that
// takes over is cut off too, at a random request.
func (s *Suite) Points(random *rand.Rand) []Planned {
	var points []Planned
	for _, e := range s.entries {
		last := len(e.reference.Requests)
		for at := 1; at <= last; at++ {
			for _, cuts := range [][]binary.Cut{
				{{Request: at}}, {{Request: at, After: true}}, {randomSide(at, random), randomSide(1+random.IntN(last), random)},
			} {
				name := fmt.Sprintf("%s (undisturbed that is %s)", describe(cuts), e.reference.Requests[at-1])
				points = append(points, Planned{e, name, Plan{Cuts: cuts}, true})
			}
		}
	}
	return points
}

// randomSide returns a cut at a request, before or after its execution.
func randomSide(request int, random *rand.Rand) binary.Cut {
	return binary.Cut{Request: request, After: random.IntN(2) == 1}
}

func describe(cuts []binary.Cut) string {
	texts := make([]string, 0, len(cuts))
	for _, cut := range cuts {
		texts = append(texts, cut.String())
	}
	return "cut " + strings.Join(texts, ", then ")
}

// Sample selects the given number of points, with an equal number for each scenario as far as possible.
func Sample(points []Planned, random *rand.Rand, size int) []Planned {
	shuffled := slices.Clone(points)
	random.Shuffle(len(shuffled), func(i, j int) { shuffled[i], shuffled[j] = shuffled[j], shuffled[i] })
	taken := map[*entry]int{}
	rounds := make([][]Planned, len(points)) // each has at most one point of a scenario
	for _, point := range shuffled {
		round := taken[point.entry]
		rounds[round] = append(rounds[round], point)
		taken[point.entry]++
	}
	return slices.Concat(rounds...)[:min(size, len(points))]
}

// mostCuts is the maximum number of cuts in a random run.
const mostCuts = 3

// RandomRuns plans runs with full concurrency in which one process after the other is cut off at a random request.
func (s *Suite) RandomRuns(random *rand.Rand, count int) []Planned {
	runs := make([]Planned, 0, count)
	for i := range count {
		e := s.entries[(i+random.IntN(2))%len(s.entries)]
		plan := Plan{Parallel: true}
		for range 1 + random.IntN(mostCuts) {
			plan.Cuts = append(plan.Cuts, randomSide(1+random.IntN(len(e.reference.Requests)), random))
		}
		runs = append(runs, Planned{entry: e, Name: "full concurrency, " + describe(plan.Cuts), Plan: plan})
	}
	return runs
}

// Runs plans one run of each scenario, with a separate result of plan for each. It omits scenarios that wait, if the plan sets the clock
// back.
func (s *Suite) Runs(name string, plan func() Plan) []Planned {
	runs := make([]Planned, 0, len(s.entries))
	for _, e := range s.entries {
		if planned := plan(); !planned.Behind || !e.scenario.Waits {
			runs = append(runs, Planned{entry: e, Name: name, Plan: planned})
		}
	}
	return runs
}

// progressEvery is the number of points after which Execute prints a line about its progress.
const progressEvery = 50

// Execute executes the runs and returns the number of cuts that were made.
func (s *Suite) Execute(ctx context.Context, runs []Planned) int {
	done, total := 0, 0
	s.each(len(runs), func(i int) {
		run, start := runs[i], time.Now()
		made, err := run.try(ctx)
		if err != nil {
			s.fail(run.entry.scenario.Name+", "+run.Name, err)
		}
		s.mu.Lock()
		defer s.mu.Unlock()
		total += made
		if !run.isPoint {
			return
		}
		run.entry.count(made, err, time.Since(start))
		done++
		if done%progressEvery == 0 {
			_, _ = fmt.Fprintf(s.Out, "crash points: %d of %d tried, %d failures\n", done, len(runs), s.Failures())
		}
	})
	return total
}

// attempts is how many times a point is tried as planned until its cut is made. After that, try moves the cut.
const attempts = 4

// try requires that a run has the expected result, and that the first cut of a point is made. On a busy machine, a process may send fewer
// requests than undisturbed, for example because an object is back before its absence is reported. If no attempt sends so many requests,
// try makes one further attempt, with the cut at the last request of the attempt before.
func (p Planned) try(ctx context.Context) (int, error) {
	plan := p.Plan
	plan.Cuts = slices.Clone(plan.Cuts)
	var requests []string
	for attempt := range attempts + 1 {
		if attempt == attempts {
			plan.Cuts[0].Request = len(requests)
		}
		outcome, err := Try(ctx, p.entry.env, p.entry.scenario, plan, p.entry.reference)
		if err != nil || outcome.Made > 0 || !p.isPoint {
			return outcome.Made, err
		}
		requests = outcome.Requests
	}
	return 0, fmt.Errorf("the process was not cut off; it sent:\n%s\nundisturbed it sends:\n%s", strings.Join(requests, "\n"),
		strings.Join(p.entry.reference.Requests, "\n"))
}

func (e *entry) count(made int, err error, took time.Duration) {
	e.tried++
	e.took += took
	if made > 1 {
		e.twice++
	}
	if err == nil {
		e.passed++
	}
}

// Table returns the results as a table. It needs the references of all scenarios.
func (s *Suite) Table() string {
	var text strings.Builder
	_, _ = fmt.Fprintf(&text, "%-56s %8s %8s %8s %8s %10s\n", "scenario", "requests", "points", "passed", "twice", "s a point")
	var total entry
	for _, e := range s.entries {
		_, _ = fmt.Fprintf(&text, "%-56s %8d %8d %8d %8d %10.2f\n", e.scenario.Name, len(e.reference.Requests), e.tried, e.passed, e.twice,
			e.took.Seconds()/float64(max(1, e.tried)))
		total.tried, total.passed, total.twice = total.tried+e.tried, total.passed+e.passed, total.twice+e.twice
	}
	_, _ = fmt.Fprintf(&text, "crash points: %d tried, %d passed; in %d of them the process that took over was cut off too", total.tried,
		total.passed, total.twice)
	return text.String()
}

// mostFailures is the number of failures after which no further run is started.
const mostFailures = 5

// each calls work for all numbers below count, several concurrently.
func (s *Suite) each(count int, work func(int)) {
	workqueue.ParallelizeUntil(context.Background(), s.Workers, count, func(i int) {
		if s.Failures() < mostFailures {
			work(i)
		}
	})
}

// Number reads an environment variable.
func Number(t *testing.T, variable string, fallback int) int {
	t.Helper()
	text := os.Getenv(variable)
	if text == "" {
		return fallback
	}
	value, err := strconv.Atoi(text)
	NewWithT(t).Expect(err).NotTo(HaveOccurred(), variable)
	return value
}
