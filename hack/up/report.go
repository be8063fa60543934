package main

import (
	"bytes"
	"fmt"
	"strings"
	"text/tabwriter"
	"time"

	"github.com/espalier-dev/espalier/test/local"
)

// report prints what happens.
type report struct{ *local.Report }

// table prints rows in aligned columns; the first is the header.
func (r report) table(rows [][]string) {
	var text bytes.Buffer // the tab writer writes cell by cell
	w := tabwriter.NewWriter(&text, 0, 0, 3, ' ', 0)
	for _, row := range rows {
		_, _ = fmt.Fprintln(w, strings.Join(row, "\t"))
	}
	_ = w.Flush() // writing to a buffer cannot fail
	_, _ = r.Write(text.Bytes())
}

// during runs a function that may print nothing for minutes, and prints every 15 seconds that it is still running.
func (r report) during(what string, run func() error) error {
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

// walkthrough prints the lines of the script: "# " begins a step, and the rows of a table have tabs.
type walkthrough struct {
	report report
	rows   [][]string
}

func (w *walkthrough) line(text string) {
	if strings.Contains(text, "\t") {
		w.rows = append(w.rows, strings.Split(text, "\t"))
		return
	}
	w.flush()
	if step, ok := strings.CutPrefix(text, "# "); ok {
		w.report.Step("%s", step)
	} else {
		w.report.Detail("%s", text)
	}
}

// flush prints the rows that were written last.
func (w *walkthrough) flush() {
	if len(w.rows) > 0 {
		w.report.table(w.rows)
		w.rows = nil
	}
}
