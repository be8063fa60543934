package harness

import (
	"cmp"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"text/tabwriter"
	"time"
)

// Verdict is the result of comparing a figure with its target.
type Verdict int

// A figure without a target is informative.
const (
	Informative Verdict = iota
	Pass
	Miss
	Unmeasured
)

func (v Verdict) String() string { return [...]string{"", "PASS", "MISS", "NOT MEASURED"}[v] }

// Judge returns Pass or Miss.
func Judge(met bool) Verdict {
	if met {
		return Pass
	}
	return Miss
}

// Row is a line of the table.
type Row struct {
	Measure, Workload string
	// Gardener is the figure that Gardener has published. Target is the required figure, and Figure the measured one.
	Gardener, Target, Figure string
	Verdict                  Verdict
	// Note explains a figure below the table.
	Note string
	// Enforced rows make the run fail with -enforce if they miss their target.
	Enforced bool
}

// Inform returns a row without a target.
func Inform(measure, format string, values ...any) Row {
	return Row{Measure: measure, Target: "–", Figure: fmt.Sprintf(format, values...)}
}

// AtMost returns an enforced row for a figure with a maximum, both printed in the given format.
func AtMost(measure, format string, value, limit float64) Row {
	target := "≤ " + fmt.Sprintf(format, limit)
	return Row{Measure: measure, Target: target, Figure: fmt.Sprintf(format, value), Verdict: Judge(value <= limit), Enforced: true}
}

// Exactly returns an enforced row for a number.
func Exactly(measure string, value, want int) Row {
	return Row{Measure: measure, Target: strconv.Itoa(want), Figure: strconv.Itoa(value), Verdict: Judge(value == want), Enforced: true}
}

// Ratio returns an enforced row with the ratio of a time to the mean of the floors, which are times of the bare client. It shows all these
// times. A limit of 0 means no target.
func Ratio(measure string, limit float64, ours time.Duration, floors ...time.Duration) Row {
	base := Mean(floors)
	quotient := float64(ours) / float64(base)
	row := Inform(measure, "%.2f", quotient).WithNote("%s ÷ mean of %s", Seconds(ours), Spread(floors))
	if limit > 0 {
		row.Target, row.Verdict, row.Enforced = fmt.Sprintf("≤ %v", limit), Judge(quotient <= limit), true
	}
	return row.If(ours > 0 && base > 0)
}

// Paired returns an enforced row with the median of the quotients of times that were measured in pairs, so that disturbances of the machine
// that last longer than a pair cancel out. It shows all times. Only whole pairs count.
func Paired(measure string, limit float64, ours, floors []time.Duration) Row {
	count := min(len(ours), len(floors))
	quotients := make([]float64, 0, count)
	for i := range count {
		quotients = append(quotients, float64(ours[i])/float64(floors[i]))
	}
	slices.Sort(quotients)
	median := 0.0
	if count > 0 {
		median = (quotients[(count-1)/2] + quotients[count/2]) / 2
	}
	return AtMost(measure, "%.2f", median, limit).WithNote("%s ÷ %s", Spread(ours), Spread(floors)).If(count > 0)
}

// WithNote adds a note, which is printed below the table.
func (l Row) WithNote(format string, values ...any) Row {
	l.Note = l.Measure + ": " + fmt.Sprintf(format, values...)
	return l
}

// If returns the row; if measured is false, it says that the figure was not measured.
func (l Row) If(measured bool) Row {
	if !measured {
		l.Figure, l.Note, l.Verdict = "–", "", Unmeasured
	}
	return l
}

// On returns the rows, and adds the name of the workload to each.
func On(workload string, rows ...Row) []Row {
	for i := range rows {
		rows[i].Workload = workload
	}
	return rows
}

// Enforce returns an error for each enforced row that misses its target.
func Enforce(rows []Row) error {
	var missed []error
	for _, r := range rows {
		if r.Enforced && r.Verdict != Pass {
			missed = append(missed, fmt.Errorf("%s, %s: %s, target %s", r.Workload, r.Measure, r.Figure, r.Target))
		}
	}
	return errors.Join(missed...)
}

// Table returns the rows as text, grouped by measure in their order, and their notes below. It has a column for Gardener if a row has a
// figure for it.
func Table(rows []Row) string {
	order := map[string]int{}
	for i, l := range slices.Backward(rows) {
		order[l.Measure] = i
	}
	rows = slices.SortedStableFunc(slices.Values(rows), func(a, b Row) int { return order[a.Measure] - order[b.Measure] })
	gardener := slices.ContainsFunc(rows, func(l Row) bool { return l.Gardener != "" })
	var text strings.Builder
	w := tabwriter.NewWriter(&text, 0, 0, 2, ' ', 0)
	line := func(measure, workload, theirs, target, ours, verdict string) {
		cells := []string{measure, workload, theirs, target, ours, verdict}
		if !gardener {
			cells = slices.Delete(cells, 2, 3)
		}
		_, _ = fmt.Fprintln(w, strings.Join(cells, "\t"))
	}
	line("measure", "workload", "Gardener v1.149.3", "target", "Espalier", "")
	line("-------", "--------", "-----------------", "------", "--------", "")
	for _, l := range rows {
		line(l.Measure, l.Workload, cmp.Or(l.Gardener, "–"), l.Target, l.Figure, l.Verdict.String())
	}
	_ = w.Flush() // writing to a builder cannot fail
	for _, l := range rows {
		if l.Note != "" {
			text.WriteString(l.Workload + ", " + l.Note + "\n")
		}
	}
	return text.String()
}
