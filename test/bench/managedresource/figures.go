package managedresource

import (
	"fmt"
	"time"

	"github.com/espalier-dev/espalier/test/bench/harness"
)

// figures are the results for a workload; zero values were not measured.
type figures struct {
	workload workload
	// creations and deletions are the times in which the bare client creates and deletes the objects of all sets.
	creations     []time.Duration
	deletions     []time.Duration
	converge      time.Duration
	setFloors     []time.Duration
	rest          restFigures
	repairs       []time.Duration
	updateTotal   time.Duration
	updateFloors  []time.Duration
	restart       time.Duration
	restartReads  int
	restartWrites int
	remove        time.Duration
}

// published are the figures of Gardener's resource manager (v1.149.3, defaults) on a machine with two cores.
type published struct{ converge, requests, cpu, drift, update, remove, memory string }

// expected contains the targets for a workload. Sizes between the two published ones use the target of the larger one. For larger sizes
// than the published ones, figures that grow with the size have no target; their limit is 0.
type expected struct {
	published
	update, restart time.Duration
	memory          int64
	converge, cpu   float64
}

func expectations(s size) expected {
	e := expected{update: time.Second, restart: 3 * time.Second, memory: 60 << 20, converge: 1.4, cpu: 0.1}
	if s.total() > 2000 {
		e.update, e.memory = 4*time.Second, 90<<20
	}
	if s.total() > 10000 {
		e.restart, e.memory = 0, 160<<20
	}
	if s.total() > 50000 {
		e.memory = 0
	}
	if s.total() > 10000 || s.sets > 100 { // every set is a separate change
		e.update = 0
	}
	if s.sets > 100 { // each set costs three writes of its own, and a read of its Secret
		e.converge, e.cpu = 1.7, 0.15
	}
	switch s {
	case size{50, 40}:
		e.published = published{"2.9", "1,000", "1.6 s", "32 s / 34 s", "3.3 s", "53 s", "102 MiB"}
	case size{100, 100}:
		e.published = published{"3.3", "3,725", "6.6 s", "6 s / 11 s", "26 s", "271 s", "191 MiB"}
	}
	return e
}

// atMost returns a row that is not enforced, because it depends on the speed of the machine. A limit of 0 means none.
func atMost[T ~int64](measure, figure string, value, limit T, write func(T) string) harness.Row {
	row := harness.Inform(measure, "%s", figure)
	if limit > 0 {
		row.Target, row.Verdict = "≤ "+write(limit), harness.Judge(value <= limit)
	}
	return row
}

// rows returns the rows of one workload, always the same ones.
func (f figures) rows() []harness.Row {
	e := expectations(f.workload.size)
	const drift, tail = 100 * time.Millisecond, 500 * time.Millisecond
	of := func(gardener string, measured bool, row harness.Row) harness.Row {
		row.Gardener = gardener
		return row.If(measured)
	}
	createFloors := f.creations[:min(2, len(f.creations))]   // before and after converging
	removeFloors := f.deletions[max(0, len(f.deletions)-2):] // before and after the deletion of the sets
	rested := f.rest.window > 0
	cpu, median, longest := f.rest.perMinute(f.rest.cpu.Seconds()), harness.Median(f.repairs), harness.Longest(f.repairs)
	return harness.On(f.workload.String(),
		of(e.published.converge, f.converge > 0, harness.Ratio("converge ÷ floor", e.converge, f.converge, createFloors...)),
		of("", f.converge > 0, harness.Ratio("converge ÷ bare client that writes as much", 1.2, f.converge, f.setFloors...)),
		of(e.requests, rested, harness.Row{
			Measure: "requests/min at rest, to managed objects", Target: "0", Enforced: true, Verdict: harness.Judge(f.rest.managed == 0),
			Figure: fmt.Sprintf("%.1f (others %.1f)", f.rest.perMinute(float64(f.rest.managed)), f.rest.perMinute(float64(f.rest.other))),
		}),
		of(e.published.cpu, rested, harness.Row{
			Measure: "CPU per minute at rest", Target: fmt.Sprintf("≤ %v s", e.cpu), Figure: fmt.Sprintf("%.2f s", cpu),
			Verdict: harness.Judge(cpu <= e.cpu),
		}),
		of(e.drift, len(f.repairs) > 0, harness.Row{
			Measure: "drift repaired, median / max", Target: "≤ " + harness.Seconds(drift) + " / " + harness.Seconds(tail),
			Figure:  harness.Seconds(median) + " / " + harness.Seconds(longest),
			Verdict: harness.Judge(median <= drift && longest <= tail),
		}),
		of(e.published.update, f.updateTotal > 0,
			atMost("one object changed in every set, until applied", harness.Seconds(f.updateTotal), f.updateTotal, e.update, harness.Seconds)),
		of("", true, harness.Ratio("one object changed in every set ÷ floor", 1.5, f.updateTotal, f.updateFloors...)),
		of(e.remove, f.remove > 0, harness.Ratio("delete all sets ÷ floor", 1.5, f.remove, removeFloors...)),
		of(e.published.memory, rested,
			atMost("resident memory at rest", harness.Mebibytes(f.rest.memory), f.rest.memory, e.memory, harness.Mebibytes)),
		of("", f.restart > 0, atMost("restart until in sync", harness.Seconds(f.restart), f.restart, e.restart, harness.Seconds)),
		of("", f.restart > 0, harness.Row{
			Measure: "reads per object at restart", Target: "0", Enforced: true, Verdict: harness.Judge(f.restartReads == 0 && f.restartWrites == 0),
			Figure: fmt.Sprintf("%d (writes %d)", f.restartReads, f.restartWrites),
		}),
	)
}
