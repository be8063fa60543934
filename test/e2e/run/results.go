package main

import (
	"encoding/xml"
	"errors"
	"fmt"
	"io"
	"os"
	"text/tabwriter"
	"time"

	"github.com/onsi/ginkgo/v2/reporters"
)

type result struct {
	suite                   string
	passed, failed, skipped int
	time                    time.Duration
	// problem is the reason why there are no numbers of specs; empty if there are.
	problem string
}

// readReport returns the counts in a JUnit report of Ginkgo, which counts skipped and pending specs as disabled.
func readReport(file string) (result, error) {
	content, err := os.ReadFile(file)
	if err != nil {
		return result{}, fmt.Errorf("read report: %w", err)
	}
	report := reporters.JUnitTestSuites{}
	if err := xml.Unmarshal(content, &report); err != nil {
		return result{}, fmt.Errorf("read report: %w", err)
	}
	failed := report.Failures + report.Errors
	return result{passed: report.Tests - failed - report.Disabled, failed: failed, skipped: report.Disabled}, nil
}

// printTable prints the results, and the sums in the last line.
func printTable(out io.Writer, results []result) {
	w := tabwriter.NewWriter(out, 0, 0, 3, ' ', tabwriter.AlignRight)
	fmt.Fprintln(w, "suite\tpassed\tfailed\tskipped\tseconds\t")
	for _, each := range results {
		fmt.Fprintf(w, "%s\t%d\t%d\t%d\t%.1f\t\n", each.suite, each.passed, each.failed, each.skipped, each.time.Seconds())
	}
	_ = w.Flush() // if it fails, the error could not be printed either
	for _, each := range results {
		if each.problem != "" {
			fmt.Fprintf(out, "%s: %s\n", each.suite, each.problem)
		}
	}
	sum := sumOf(results)
	fmt.Fprintf(out, "%d passed, %d failed, %d skipped\n", sum.passed, sum.failed, sum.skipped)
}

func sumOf(results []result) (sum result) {
	for _, each := range results {
		sum.passed, sum.failed, sum.skipped = sum.passed+each.passed, sum.failed+each.failed, sum.skipped+each.skipped
	}
	return sum
}

// verdict returns an error unless at least one spec passed and none failed. If all specs were skipped, the error names the parts that this
// cluster lacks.
func verdict(results []result) error {
	sum := sumOf(results)
	switch {
	case sum.failed > 0:
		return fmt.Errorf("%d specs failed; the output of each suite is in .local/e2e/reports", sum.failed)
	case sum.passed == 0 && sum.skipped > 0:
		return &impossibleError{"all that was selected was skipped, for the reasons above"}
	case sum.passed == 0:
		return errors.New("no spec was run: the labels or the names select none")
	}
	return nil
}
