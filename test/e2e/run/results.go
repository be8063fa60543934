package main

import (
	"encoding/xml"
	"errors"
	"fmt"
	"io"
	"os"
	"strconv"
	"text/tabwriter"
	"time"
)

// result is the result of a suite.
type result struct {
	suite                   string
	passed, failed, skipped int
	time                    time.Duration
	// problem says why the numbers are not those of specs.
	problem string
}

// readReport counts the specs of a JUnit report.
func readReport(file string) (result, error) {
	content, err := os.ReadFile(file)
	if err != nil {
		return result{}, fmt.Errorf("read report: %w", err)
	}
	var report struct {
		Suites []struct {
			Cases []struct {
				Failure *struct{} `xml:"failure"`
				Error   *struct{} `xml:"error"`
				Skipped *struct{} `xml:"skipped"`
			} `xml:"testcase"`
		} `xml:"testsuite"`
	}
	if err := xml.Unmarshal(content, &report); err != nil {
		return result{}, fmt.Errorf("read report: %w", err)
	}
	counted := result{}
	for _, suite := range report.Suites {
		for _, spec := range suite.Cases {
			switch {
			case spec.Failure != nil || spec.Error != nil:
				counted.failed++
			case spec.Skipped != nil:
				counted.skipped++
			default:
				counted.passed++
			}
		}
	}
	return counted, nil
}

// printTable prints the results, and the sum in the last line.
func printTable(out io.Writer, results []result) {
	sum := result{}
	w := tabwriter.NewWriter(out, 0, 0, 3, ' ', tabwriter.AlignRight)
	fmt.Fprintln(w, "suite\tpassed\tfailed\tskipped\tseconds\t")
	for _, each := range results {
		fmt.Fprintf(w, "%s\t%d\t%d\t%d\t%s\t\n", each.suite, each.passed, each.failed, each.skipped,
			strconv.FormatFloat(each.time.Seconds(), 'f', 1, 64))
		sum.passed, sum.failed, sum.skipped = sum.passed+each.passed, sum.failed+each.failed, sum.skipped+each.skipped
	}
	_ = w.Flush() // an error cannot be printed either
	for _, each := range results {
		if each.problem != "" {
			fmt.Fprintf(out, "%s: %s\n", each.suite, each.problem)
		}
	}
	fmt.Fprintf(out, "%d passed, %d failed, %d skipped\n", sum.passed, sum.failed, sum.skipped)
}

// verdict returns an error unless at least one spec passed and none failed; if all were skipped, it says what this cluster lacks.
func verdict(results []result) error {
	passed, failed, skipped := 0, 0, 0
	for _, each := range results {
		passed, failed, skipped = passed+each.passed, failed+each.failed, skipped+each.skipped
	}
	switch {
	case failed > 0:
		return fmt.Errorf("%d specs failed; the output of each suite is in .local/e2e/reports", failed)
	case passed == 0 && skipped > 0:
		return &impossibleError{"all that was selected was skipped, for the reasons above"}
	case passed == 0:
		return errors.New("no spec was run: the labels or the names select none")
	}
	return nil
}
