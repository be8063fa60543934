package local

import (
	"bytes"
	"fmt"
	"io"
	"strings"
	"sync"
	"time"

	"k8s.io/utils/clock"
)

// Report prints the steps of a program for developers, each with the time since the start of the program.
type Report struct {
	out   io.Writer
	clock clock.PassiveClock
	begin time.Time
	mu    sync.Mutex // keeps lines whole
}

// NewReport returns a report whose time begins now.
func NewReport(out io.Writer, now clock.PassiveClock) *Report {
	return &Report{out: out, clock: now, begin: now.Now()}
}

// Step prints a line with the time since the start.
func (r *Report) Step(format string, args ...any) {
	r.Say(fmt.Sprintf("[%5.1f s] ", r.clock.Since(r.begin).Seconds()) + fmt.Sprintf(format, args...))
}

// Detail adds a line to the preceding step.
func (r *Report) Detail(format string, args ...any) {
	r.Say("          " + fmt.Sprintf(format, args...))
}

// Say prints text and a line end.
func (r *Report) Say(text string) {
	r.mu.Lock()
	defer r.mu.Unlock()
	_, _ = fmt.Fprintln(r.out, text)
}

// Write prints the output of programs and libraries as details of the preceding step.
func (r *Report) Write(text []byte) (int, error) {
	for line := range strings.SplitSeq(strings.TrimRight(string(text), "\n"), "\n") {
		r.Detail("%s", line)
	}
	return len(text), nil
}

// Lines is a writer that calls To with each complete line, without its line end.
type Lines struct {
	To   func(line string)
	rest []byte
}

// Write accepts text that does not end with a line end, too.
func (l *Lines) Write(text []byte) (int, error) {
	l.rest = append(l.rest, text...)
	for {
		line, rest, complete := bytes.Cut(l.rest, []byte("\n"))
		if !complete {
			return len(text), nil
		}
		l.rest = rest
		l.To(string(line))
	}
}
