//go:build e2e

package gardenoperator_test

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	. "github.com/onsi/gomega"
)

// measurement is the result of one fault of the local garden.
type measurement struct {
	fault string
	// recovery is the time from the beginning of the fault until all parts run again.
	recovery time.Duration
	// confirmed, failed and lost are the numbers of writes in the virtual cluster during the fault. gap is the longest time without a
	// confirmed write.
	confirmed, failed, lost int
	gap                     time.Duration
}

// table returns the measurements as a table in Markdown.
func table(all []measurement) string {
	var text strings.Builder
	text.WriteString("| fault | recovery, s | longest gap, s | failed requests | confirmed writes | lost |\n|---|---|---|---|---|---|\n")
	for _, m := range all {
		fmt.Fprintf(&text, "| %s | %.1f | %.1f | %d | %d | %d |\n", m.fault, m.recovery.Seconds(), m.gap.Seconds(), m.failed, m.confirmed, m.lost)
	}
	return text.String()
}

// save writes the current table to .local/e2e/garden.md after each fault, because a run may be interrupted at any time.
func save(root string, all []measurement) error {
	folder := filepath.Join(root, ".local", "e2e")
	if err := os.MkdirAll(folder, 0o755); err != nil {
		return fmt.Errorf("write table of faults: %w", err)
	}
	if err := os.WriteFile(filepath.Join(folder, "garden.md"), []byte(table(all)), 0o600); err != nil {
		return fmt.Errorf("write table of faults: %w", err)
	}
	return nil
}

func TestTable(t *testing.T) {
	NewWithT(t).Expect(table([]measurement{
		{fault: "a", recovery: 1500 * time.Millisecond, confirmed: 7, gap: 260 * time.Millisecond},
		{fault: "b", recovery: time.Minute, failed: 3, confirmed: 5, lost: 1, gap: time.Minute},
	})).To(Equal(`| fault | recovery, s | longest gap, s | failed requests | confirmed writes | lost |
|---|---|---|---|---|---|
| a | 1.5 | 0.3 | 0 | 7 | 0 |
| b | 60.0 | 60.0 | 3 | 5 | 1 |
`))
}
