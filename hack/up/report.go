package main

import (
	"fmt"
	"strings"
	"text/tabwriter"
	"time"

	"github.com/espalier-dev/espalier/test/local"
)

// during runs a function that may print nothing for minutes. Every 15 seconds it prints that the function is still running.
func during(r *local.Report, what string, run func() error) error {
	done := make(chan error, 1)
	go func() { done <- run() }()
	ticker := time.NewTicker(15 * time.Second)
	defer ticker.Stop()
	for {
		select {
		case <-ticker.C:
			r.Step("still %s", what)
		case err := <-done:
			return err
		}
	}
}

// walkthrough prints the output of the script. A line that begins with "# " begins a step; lines with tabs are rows of a table.
type walkthrough struct {
	report *local.Report
	table  *tabwriter.Writer
}

func newWalkthrough(r *local.Report) *walkthrough {
	details := &local.Lines{To: func(line string) { r.Detail("%s", line) }} // the tab writer writes single cells
	return &walkthrough{report: r, table: tabwriter.NewWriter(details, 0, 0, 3, ' ', 0)}
}

func (w *walkthrough) line(text string) {
	if strings.Contains(text, "\t") {
		_, _ = fmt.Fprintln(w.table, text)
		return
	}
	w.flush()
	if step, ok := strings.CutPrefix(text, "# "); ok {
		w.report.Step("%s", step)
	} else {
		w.report.Detail("%s", text)
	}
}

// flush prints the table that the last rows belong to.
func (w *walkthrough) flush() {
	_ = w.table.Flush() // printing to a report cannot fail
}
