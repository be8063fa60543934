package main

import (
	"bytes"
	"fmt"
	"io"
	"strings"
	"sync"
	"text/tabwriter"
	"time"

	"k8s.io/utils/clock"
)

// report prints what happens, each step with the time since the start.
type report struct {
	out   io.Writer
	clock clock.PassiveClock
	begin time.Time
	mu    sync.Mutex // keeps lines whole
}

func (r *report) step(format string, args ...any) {
	r.mu.Lock()
	defer r.mu.Unlock()
	_, _ = fmt.Fprintf(r.out, "[%5.1f s] %s\n", r.clock.Since(r.begin).Seconds(), fmt.Sprintf(format, args...))
}

func (r *report) say(text string) {
	r.mu.Lock()
	defer r.mu.Unlock()
	_, _ = fmt.Fprintln(r.out, text)
}

// Write indents the output of programs and libraries below the current step.
func (r *report) Write(text []byte) (int, error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	for line := range strings.SplitSeq(strings.TrimRight(string(text), "\n"), "\n") {
		if _, err := fmt.Fprintf(r.out, "          %s\n", line); err != nil {
			return 0, err
		}
	}
	return len(text), nil
}

// table prints rows in aligned columns; the first is the header.
func (r *report) table(rows [][]string) {
	var text bytes.Buffer // the tab writer writes cell by cell
	w := tabwriter.NewWriter(&text, 0, 0, 3, ' ', 0)
	for _, row := range rows {
		_, _ = fmt.Fprintln(w, strings.Join(row, "\t"))
	}
	_ = w.Flush() // writing to a buffer cannot fail
	_, _ = r.Write(text.Bytes())
}

// during runs a function that may print nothing for minutes, and prints every 15 seconds that it is still running.
func (r *report) during(what string, run func() error) error {
	done := make(chan struct{})
	silent := make(chan struct{})
	go func() {
		defer close(silent)
		ticker := time.NewTicker(15 * time.Second)
		defer ticker.Stop()
		for {
			select {
			case <-ticker.C:
				r.step("still %s", what)
			case <-done:
				return
			}
		}
	}()
	defer func() {
		close(done)
		<-silent
	}()
	return run()
}
