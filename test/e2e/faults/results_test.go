//go:build e2e

package faults_test

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	. "github.com/onsi/gomega"

	"github.com/espalier-dev/espalier/test/e2e/faults/load"
)

// measurement is the result of one fault.
type measurement struct {
	fault string
	// recovery is the time from the end of the fault until everything is in sync again, or until the end of the wait.
	recovery time.Duration
	// outcome is nil if the measurement was not completed.
	outcome *load.Outcome
	// result is "passed", or the failures.
	result string
}

// results contains the measurements of all faults, in their order.
type results struct{ all []measurement }

func (r *results) table() string {
	var text strings.Builder
	text.WriteString("| fault | recovery, s | changes meanwhile | lost updates | wrong deletions | result |\n|---|---|---|---|---|---|\n")
	for _, each := range r.all {
		figures := "– | – | – | –"
		if o := each.outcome; o != nil {
			figures = fmt.Sprintf("%.1f | %d | %d | %d", each.recovery.Seconds(), o.Figures.Changes, len(o.Lost), len(o.Deleted))
		}
		fmt.Fprintf(&text, "| %s | %s | %s |\n", each.fault, figures, each.result)
	}
	return text.String()
}

// save writes the current table to .local/e2e/faults.md after each fault, because a run may be interrupted at any time.
func (r *results) save(root string) error {
	folder := filepath.Join(root, ".local", "e2e")
	if err := os.MkdirAll(folder, 0o755); err != nil {
		return fmt.Errorf("write table of faults: %w", err)
	}
	if err := os.WriteFile(filepath.Join(folder, "faults.md"), []byte(r.table()), 0o600); err != nil {
		return fmt.Errorf("write table of faults: %w", err)
	}
	return nil
}

func TestTable(t *testing.T) {
	r := &results{all: []measurement{
		{fault: "a", recovery: 1500 * time.Millisecond, outcome: &load.Outcome{Figures: load.Figures{Changes: 7}}, result: "passed"},
		{fault: "b", recovery: time.Minute, outcome: &load.Outcome{
			Figures: load.Figures{Changes: 5}, Lost: []string{"x"},
			Deleted: []string{"y", "z"},
		}, result: "**failed**: c"},
		{fault: "d", result: "**failed**: e"},
	}}
	NewWithT(t).Expect(r.table()).To(Equal(`| fault | recovery, s | changes meanwhile | lost updates | wrong deletions | result |
|---|---|---|---|---|---|
| a | 1.5 | 7 | 0 | 0 | passed |
| b | 60.0 | 5 | 1 | 2 | **failed**: c |
| d | – | – | – | – | **failed**: e |
`))
}
