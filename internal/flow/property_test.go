package flow_test

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	. "github.com/onsi/gomega"

	"github.com/espalier-dev/espalier/internal/flow"
	"github.com/espalier-dev/espalier/test/generate"
)

// graph is a random flow with the results of its tasks. Task i has the name "t<i>".
type graph struct {
	dependsOn [][]int
	skipped   []bool
	ends      []ending
	takes     []time.Duration
	// cancelAt is the time at which the context ends. 0: it does not end.
	cancelAt time.Duration

	lock    sync.Mutex
	begin   time.Time
	started [][]time.Duration
	ended   []time.Duration
	reports []flow.Status
}

// ending is the way in which the work of a task ends.
type ending int

const (
	succeeds ending = iota
	returnsError
	panics
)

func randomGraph(random *rand.Rand) *graph {
	n := random.IntN(16)
	gr := &graph{
		dependsOn: make([][]int, n), skipped: make([]bool, n), ends: make([]ending, n), takes: make([]time.Duration, n),
		started: make([][]time.Duration, n), ended: make([]time.Duration, n),
	}
	order := random.Perm(n) // a task may depend on the tasks before it in this order, which is not the order of the list
	density, failures, skips := random.Float64(), random.Float64()*0.3*float64(random.IntN(2)), random.Float64()*0.5
	for at, task := range order {
		for _, earlier := range order[:at] {
			if random.Float64() < density {
				gr.dependsOn[task] = append(gr.dependsOn[task], earlier)
			}
		}
		gr.skipped[task] = random.Float64() < skips
		if random.Float64() < failures {
			gr.ends[task] = returnsError + ending(random.IntN(2))
		}
		gr.takes[task] = time.Duration(random.IntN(4)) * time.Second
	}
	if random.IntN(4) == 0 {
		gr.cancelAt = time.Duration(random.IntN(12))*time.Second + 500*time.Millisecond
	}
	return gr
}

func (gr *graph) tasks() []flow.Task {
	tasks := make([]flow.Task, len(gr.dependsOn))
	for i, dependencies := range gr.dependsOn {
		tasks[i] = flow.Task{Name: nameOf(i), Run: func(ctx context.Context) error {
			gr.note(func(now time.Duration) { gr.started[i] = append(gr.started[i], now) })
			flow.ReportWait(ctx, "Waits for etcd.")
			time.Sleep(gr.takes[i])
			gr.note(func(now time.Duration) { gr.ended[i] = now })
			switch gr.ends[i] {
			case returnsError:
				return errors.New("boom")
			case panics:
				panic("boom")
			default:
				return nil
			}
		}}
		for _, dependency := range dependencies {
			tasks[i].DependsOn = append(tasks[i].DependsOn, nameOf(dependency))
		}
		if gr.skipped[i] {
			tasks[i].SkipReason = "It is not needed."
		}
	}
	return tasks
}

func nameOf(task int) string { return fmt.Sprintf("t%d", task) }

func (gr *graph) note(what func(now time.Duration)) {
	gr.lock.Lock()
	defer gr.lock.Unlock()
	what(time.Since(gr.begin))
}

// ancestors returns all tasks that a task depends on, directly or through others, without the skipped ones.
func (gr *graph) ancestors(task int) []int {
	reached := make([]bool, len(gr.dependsOn))
	left := slices.Clone(gr.dependsOn[task])
	for len(left) > 0 {
		next := left[0]
		left = left[1:]
		if !reached[next] {
			reached[next] = true
			left = append(left, gr.dependsOn[next]...)
		}
	}
	var found []int
	for each := range reached {
		if reached[each] && !gr.skipped[each] {
			found = append(found, each)
		}
	}
	return found
}

func (gr *graph) ran(task int) bool { return len(gr.started[task]) > 0 }

func (gr *graph) succeeded(task int) bool { return gr.ran(task) && gr.ends[task] == succeeds }

// checkOrder requires that each task ran at most once, at the moment when the last of its dependencies had succeeded.
func (gr *graph) checkOrder(g Gomega) {
	for task := range gr.dependsOn {
		mayRun, from := !gr.skipped[task], time.Duration(0)
		for _, ancestor := range gr.ancestors(task) {
			mayRun = mayRun && gr.succeeded(ancestor)
			from = max(from, gr.ended[ancestor])
		}
		cancelled := gr.cancelAt > 0 && from > gr.cancelAt
		if mayRun && !cancelled {
			g.Expect(gr.started[task]).To(Equal([]time.Duration{from}), "when %s started", nameOf(task))
		} else {
			g.Expect(gr.started[task]).To(BeEmpty(), "%s started", nameOf(task))
		}
	}
}

// checkReports requires that each report follows the rules, that progress never falls, and that the last report is the result.
func (gr *graph) checkReports(g Gomega, result flow.Status) {
	g.Expect(gr.reports).NotTo(BeEmpty())
	g.Expect(gr.reports[len(gr.reports)-1]).To(Equal(result))
	before := flow.Status{}
	for _, report := range gr.reports {
		g.Expect(report.Progress).To(BeNumerically(">=", before.Progress))
		before = report

		done, counted := 0, 0
		var running []string
		for _, each := range report.Tasks {
			if each.State != flow.Skipped {
				counted++
			}
			if each.State == flow.Succeeded {
				done++
			}
			if each.State == flow.Running {
				running = append(running, each.Name)
			}
		}
		slices.Sort(running)
		progress, description := 100, "random finished"
		if counted > 0 {
			progress = done * 100 / counted
		}
		if progress == 0 {
			description = "Starting random"
		} else if progress < 100 {
			description = strings.Join(running, ", ")
		}
		g.Expect(report.Progress).To(Equal(progress))
		g.Expect(report.Description).To(Equal(description))
	}
}

// checkResult requires the final state of each task, progress 100 after a success alone, and an error that names each failure.
func (gr *graph) checkResult(g Gomega, result flow.Status, err error) {
	all, prevented := true, false
	var failed []string
	for task, each := range result.Tasks {
		want := flow.Pending
		switch {
		case gr.skipped[task]:
			want = flow.Skipped
		case gr.succeeded(task):
			want = flow.Succeeded
		case gr.ran(task):
			want = flow.Failed
			failed = append(failed, nameOf(task))
		default:
			all = false
			prevented = prevented || !slices.ContainsFunc(gr.ancestors(task), func(a int) bool { return !gr.succeeded(a) })
		}
		g.Expect(each.Name).To(Equal(nameOf(task)))
		g.Expect(each.State).To(Equal(want), "state of %s", each.Name)
	}
	all = all && len(failed) == 0
	if all {
		g.Expect(err).NotTo(HaveOccurred())
		g.Expect(result.Progress).To(Equal(100))
	} else {
		g.Expect(err).To(HaveOccurred())
		g.Expect(result.Progress).To(BeNumerically("<", 100))
	}
	g.Expect(errors.Is(err, context.Canceled)).To(Equal(prevented))

	var named []string
	taskErrors, _ := errors.AsType[flow.TaskErrors](err)
	for _, each := range taskErrors {
		named = append(named, each.Task)
	}
	g.Expect(named).To(Equal(failed))
}

func TestGeneratedGraphsRunByTheRules(t *testing.T) {
	generate.Cases(t, 500, func(t *testing.T, random *rand.Rand) {
		t.Helper()
		synctest.Test(t, func(t *testing.T) {
			g := NewWithT(t)
			gr := randomGraph(random)
			built, err := flow.New("random", gr.tasks())
			g.Expect(err).NotTo(HaveOccurred())
			ctx, cancel := context.WithCancel(t.Context())
			defer cancel()
			gr.begin = time.Now()
			if gr.cancelAt > 0 {
				time.AfterFunc(gr.cancelAt, cancel)
			}

			result, err := runWith(ctx, g, built, flow.Options{
				Report: func(_ context.Context, s flow.Status) { gr.reports = append(gr.reports, s) },
			})
			gr.checkOrder(g)
			gr.checkReports(g, result)
			gr.checkResult(g, result, err)
		})
	})
}

func TestGeneratedCyclesAreFound(t *testing.T) {
	generate.Cases(t, 200, func(t *testing.T, random *rand.Rand) {
		t.Helper()
		g := NewWithT(t)
		gr := randomGraph(random)
		if len(gr.dependsOn) == 0 {
			return
		}
		// A new dependency completes a cycle: the task itself, or one of its ancestors, depends on the task.
		task := random.IntN(len(gr.dependsOn))
		candidates := append(gr.ancestors(task), task)
		ancestor := candidates[random.IntN(len(candidates))]
		gr.dependsOn[ancestor] = append(gr.dependsOn[ancestor], task)

		_, err := flow.New("random", gr.tasks())
		g.Expect(err).To(HaveOccurred())
		names, ok := strings.CutPrefix(err.Error(), `build flow "random": dependencies form a cycle: `)
		g.Expect(ok).To(BeTrue(), err.Error())
		var cycle []int
		for name := range strings.SplitSeq(names, " depends on ") {
			var position int
			_, err := fmt.Sscanf(name, "\"t%d\"", &position)
			g.Expect(err).NotTo(HaveOccurred())
			cycle = append(cycle, position)
		}
		g.Expect(cycle[0]).To(Equal(cycle[len(cycle)-1]))
		for i, each := range cycle[1:] {
			g.Expect(gr.dependsOn[cycle[i]]).To(ContainElement(each), "%s does not depend on %s", nameOf(cycle[i]), nameOf(each))
		}
	})
}
