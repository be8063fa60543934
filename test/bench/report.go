package main

import (
	"fmt"
	"io"
	"strings"
	"text/tabwriter"
	"time"

	"k8s.io/utils/clock"
)

// report tells what happens, each step with the time since the beginning.
type report struct {
	out   io.Writer
	clock clock.PassiveClock
	begin time.Time
}

func (r *report) step(format string, args ...any) {
	_, _ = fmt.Fprintf(r.out, "[%6.1f s] %s\n", r.clock.Since(r.begin).Seconds(), fmt.Sprintf(format, args...))
}

// detail adds a line to the step before.
func (r *report) detail(format string, args ...any) {
	_, _ = fmt.Fprintf(r.out, "             %s\n", fmt.Sprintf(format, args...))
}

func (r *report) say(text string) { _, _ = fmt.Fprintln(r.out, text) }

// Write adds what programs say to the step before.
func (r *report) Write(text []byte) (int, error) {
	for line := range strings.SplitSeq(strings.TrimRight(string(text), "\n"), "\n") {
		r.detail("%s", line)
	}
	return len(text), nil
}

// table prints the rows below each other, grouped by measure as they come.
func (r *report) table(rows []row) {
	w := tabwriter.NewWriter(r.out, 0, 0, 2, ' ', 0)
	_, _ = fmt.Fprintln(w, "measure\tworkload\tGardener v1.149.3\ttarget\tEspalier\t")
	_, _ = fmt.Fprintln(w, "-------\t--------\t-----------------\t------\t--------\t")
	for _, l := range rows {
		_, _ = fmt.Fprintln(w, strings.Join([]string{l.measure, l.workload.String(), l.gardener, l.target, l.ours, l.verdict.String()}, "\t"))
	}
	_ = w.Flush() // a terminal that has gone is no reason to stop
}

// seconds is how durations are printed everywhere.
func seconds(d time.Duration) string {
	if d < time.Second {
		return fmt.Sprintf("%d ms", d.Milliseconds())
	}
	return fmt.Sprintf("%.2f s", d.Seconds())
}
