package main

import (
	"errors"
	"fmt"
	"slices"
	"time"
)

// figures are the results for a workload; zero values were not measured.
type figures struct {
	workload      workload
	floors        []floor
	converge      time.Duration
	rest          restFigures
	repairs       []time.Duration
	updates       []time.Duration
	updateTotal   time.Duration
	updateFloors  []time.Duration
	restart       time.Duration
	restartReads  int
	restartWrites int
	remove        time.Duration
}

// createFloor is the mean of the bare client's creations before and after converging: the first two.
func (f figures) createFloor() time.Duration { return mean(f.createFloors()) }

func (f figures) createFloors() (all []time.Duration) {
	for _, m := range f.floors[:min(2, len(f.floors))] {
		all = append(all, m.create)
	}
	return all
}

// removeFloors are the bare client's deletions before and after the deletion of the sets: the last two.
func (f figures) removeFloors() (all []time.Duration) {
	for _, m := range f.floors[max(0, len(f.floors)-2):] {
		all = append(all, m.remove)
	}
	return all
}

func longest(values []time.Duration) time.Duration {
	if len(values) == 0 {
		return 0
	}
	return slices.Max(values)
}

// verdict compares a figure with its target.
type verdict int

const (
	informative verdict = iota // there is no target
	pass
	miss
	unmeasured
)

func (v verdict) String() string { return [...]string{"", "PASS", "MISS", "NOT MEASURED"}[v] }

func judge(met bool) verdict {
	if met {
		return pass
	}
	return miss
}

// atMost formats a target; a limit of 0 means none.
func atMost[T ~int64](limit T, write func(T) string) string {
	if limit == 0 {
		return "–"
	}
	return "≤ " + write(limit)
}

// judgeLimit compares a value with a target; a limit of 0 means none.
func judgeLimit[T ~int64](value, limit T) verdict {
	if limit == 0 {
		return informative
	}
	return judge(value <= limit)
}

// row is a line of the table.
type row struct {
	measure, workload      string
	gardener, target, ours string
	verdict                verdict
	// note explains a figure below the table.
	note string
	// portable figures do not depend on the speed of the machine; only these can be enforced.
	portable bool
}

// published are the figures of Gardener's resource manager (v1.149.3, defaults) on a machine with two cores.
type published struct{ converge, requests, cpu, drift, update, remove, memory string }

// expected contains the targets for a workload. Sizes between the two published ones use the target of the larger one. For larger sizes,
// figures that grow with the size have no target: 0.
type expected struct {
	published
	update, restart time.Duration
	memory          int64
	drift, tail     time.Duration
}

func expectations(s size) expected {
	e := expected{
		published: published{"–", "–", "–", "–", "–", "–", "–"},
		update:    time.Second, restart: 3 * time.Second, memory: 60 << 20, drift: 100 * time.Millisecond, tail: 500 * time.Millisecond,
	}
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
	switch s {
	case size{50, 40}:
		e.published = published{"2.9", "1,000", "1.6 s", "32 s / 34 s", "3.3 s", "53 s", "102 MiB"}
	case size{100, 100}:
		e.published = published{"3.3", "3,725", "6.6 s", "6 s / 11 s", "26 s", "271 s", "191 MiB"}
	}
	return e
}

// rowsOf groups the rows of the workloads by measure.
func rowsOf(all []figures) []row {
	lines := len(figures{}.rows())
	rows := make([]row, 0, len(all)*lines)
	for line := range lines {
		for _, f := range all {
			rows = append(rows, f.rows()[line])
		}
	}
	return rows
}

// rows returns the rows of one workload, always the same ones.
func (f figures) rows() []row {
	e := expectations(f.workload.size)
	const targetUpdate, targetRemove = 1.5, 1.5
	targetConverge, targetCPU := 1.4, 0.1
	if f.workload.size.sets > 100 { // each set costs three writes of its own, and a read of its Secret
		targetConverge, targetCPU = 1.7, 0.15
	}
	rows := []row{
		f.ratio("converge ÷ floor", e.converge, targetConverge, f.converge, f.createFloors()),
		{
			measure: "requests/min at rest, to managed objects", gardener: e.requests, target: "0", portable: true, verdict: judge(f.rest.managed == 0),
			ours: fmt.Sprintf("%.1f (others %.1f)", f.rest.perMinute(float64(f.rest.managed)), f.rest.perMinute(float64(f.rest.other))),
		},
		{
			measure: "CPU per minute at rest", gardener: e.cpu, target: fmt.Sprintf("≤ %v s", targetCPU), verdict: judge(f.rest.perMinute(f.rest.cpu.Seconds()) <= targetCPU),
			ours: fmt.Sprintf("%.2f s", f.rest.perMinute(f.rest.cpu.Seconds())),
		},
		{
			measure: "drift repaired, median / max", gardener: e.published.drift, target: "≤ " + seconds(e.drift) + " / " + seconds(e.tail),
			ours:    seconds(median(f.repairs)) + " / " + seconds(longest(f.repairs)),
			verdict: judge(median(f.repairs) <= e.drift && longest(f.repairs) <= e.tail),
		},
		{
			measure: "one object changed in every set, until applied", gardener: e.published.update, target: atMost(e.update, seconds),
			ours: fmt.Sprintf("%s (median of a set %s)", seconds(f.updateTotal), seconds(median(f.updates))), verdict: judgeLimit(f.updateTotal, e.update),
		},
		f.ratio("one object changed in every set ÷ floor", "–", targetUpdate, f.updateTotal, f.updateFloors),
		f.ratio("delete all sets ÷ floor", e.remove, targetRemove, f.remove, f.removeFloors()),
		{
			measure: "resident memory at rest", gardener: e.published.memory, target: atMost(e.memory, mebibytes),
			ours: mebibytes(f.rest.memory), verdict: judgeLimit(f.rest.memory, e.memory),
		},
		{
			measure: "restart until in sync", gardener: "–", target: atMost(e.restart, seconds), ours: seconds(f.restart),
			verdict: judgeLimit(f.restart, e.restart),
		},
		{
			measure: "reads per object at restart", gardener: "–", target: "0", portable: true, verdict: judge(f.restartReads == 0 && f.restartWrites == 0),
			ours: fmt.Sprintf("%d (writes %d)", f.restartReads, f.restartWrites),
		},
	}
	measured := []bool{
		f.converge > 0, f.rest.window > 0, f.rest.window > 0, len(f.repairs) > 0, f.updateTotal > 0, len(f.updateFloors) > 0 && f.updateTotal > 0, f.remove > 0,
		f.rest.window > 0, f.restart > 0, f.restart > 0,
	}
	for i := range rows {
		rows[i].workload = f.workload.String()
		if !measured[i] {
			rows[i].ours, rows[i].note, rows[i].verdict = "–", "", unmeasured
		}
	}
	return rows
}

// ratio compares a time with the mean of the floors, and shows all of them.
func (f figures) ratio(measure, gardener string, target float64, ours time.Duration, floors []time.Duration) row {
	r := row{measure: measure, gardener: gardener, target: fmt.Sprintf("≤ %.1f", target), portable: true}
	if base := mean(floors); base > 0 {
		quotient := float64(ours) / float64(base)
		r.ours = fmt.Sprintf("%.2f", quotient)
		r.note = fmt.Sprintf("%s: %s ÷ mean of %s", measure, seconds(ours), spread(floors))
		r.verdict = judge(quotient <= target)
	}
	return r
}

func mebibytes(bytes int64) string { return fmt.Sprintf("%.0f MiB", float64(bytes)/(1<<20)) }

// enforce returns an error for each row that misses its target and does not depend on the speed of the machine.
func enforce(rows []row) error {
	var missed []error
	for _, r := range rows {
		if r.portable && r.verdict != pass {
			missed = append(missed, fmt.Errorf("%s, %s: %s, target %s", r.workload, r.measure, r.ours, r.target))
		}
	}
	return errors.Join(missed...)
}
