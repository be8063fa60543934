package main

import (
	"cmp"
	"fmt"
	"io"
	"slices"
	"strings"
	"text/tabwriter"
	"time"

	"k8s.io/utils/clock"
)

// report prints what happens, each step with the time since the start.
type report struct {
	out   io.Writer
	clock clock.PassiveClock
	begin time.Time
}

func (r *report) step(format string, args ...any) {
	_, _ = fmt.Fprintf(r.out, "[%6.1f s] %s\n", r.clock.Since(r.begin).Seconds(), fmt.Sprintf(format, args...))
}

// detail adds a line to the preceding step.
func (r *report) detail(format string, args ...any) {
	_, _ = fmt.Fprintf(r.out, "             %s\n", fmt.Sprintf(format, args...))
}

func (r *report) say(text string) { _, _ = fmt.Fprintln(r.out, text) }

// Write adds the output of programs to the preceding step.
func (r *report) Write(text []byte) (int, error) {
	for line := range strings.SplitSeq(strings.TrimRight(string(text), "\n"), "\n") {
		r.detail("%s", line)
	}
	return len(text), nil
}

// table prints the rows, grouped by measure in their order, and their notes below. It has a column for Gardener if a row has a figure for
// it.
func (r *report) table(rows []row) {
	header := row{measure: "measure", workload: "workload", target: "target", ours: "Espalier"}
	if slices.ContainsFunc(rows, func(l row) bool { return l.gardener != "" }) {
		header.gardener = "Gardener v1.149.3"
	}
	w := tabwriter.NewWriter(r.out, 0, 0, 2, ' ', 0)
	line := func(cells ...string) { _, _ = fmt.Fprintln(w, strings.Join(cells, "\t")) }
	for i, l := range append([]row{header, header.underlined()}, rows...) {
		verdict := l.verdict.String()
		if i < 2 {
			verdict = ""
		}
		if header.gardener == "" {
			line(l.measure, l.workload, l.target, l.ours, verdict)
		} else {
			line(l.measure, l.workload, cmp.Or(l.gardener, "–"), l.target, l.ours, verdict)
		}
	}
	_ = w.Flush() // continue even if the terminal is gone
	for _, l := range rows {
		if l.note != "" {
			r.say(l.workload + ", " + l.note)
		}
	}
}

// underlined is the line below a header.
func (l row) underlined() row {
	dashes := func(text string) string { return strings.Repeat("-", len(text)) }
	return row{measure: dashes(l.measure), workload: dashes(l.workload), gardener: dashes(l.gardener), target: dashes(l.target), ours: dashes(l.ours)}
}

// seconds formats durations.
func seconds(d time.Duration) string {
	if d < time.Second {
		return fmt.Sprintf("%d ms", d.Milliseconds())
	}
	return fmt.Sprintf("%.2f s", d.Seconds())
}

// milliseconds formats latencies.
func milliseconds(d time.Duration) string {
	return fmt.Sprintf("%.0f ms", float64(d)/float64(time.Millisecond))
}
