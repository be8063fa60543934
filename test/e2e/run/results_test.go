package main

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/onsi/ginkgo/v2/reporters"
	"github.com/onsi/ginkgo/v2/types"
	. "github.com/onsi/gomega"
)

func TestReadReport(t *testing.T) {
	g := NewWithT(t)
	file := filepath.Join(t.TempDir(), "a.xml")
	report := types.Report{}
	for _, state := range []types.SpecState{
		types.SpecStatePassed, types.SpecStatePassed, types.SpecStatePassed, types.SpecStateSkipped, types.SpecStatePending,
		types.SpecStateFailed, types.SpecStateTimedout, types.SpecStateInterrupted, types.SpecStateAborted, types.SpecStatePanicked,
	} {
		report.SpecReports = append(report.SpecReports, types.SpecReport{State: state, LeafNodeType: types.NodeTypeIt})
	}
	g.Expect(reporters.GenerateJUnitReport(report, file)).To(Succeed())
	g.Expect(readReport(file)).To(Equal(result{passed: 3, failed: 5, skipped: 2}))

	_, err := readReport(file + ".missing")
	g.Expect(err).To(MatchError(os.ErrNotExist))
	g.Expect(os.WriteFile(file, []byte("<testsuites>"), 0o600)).To(Succeed())
	_, err = readReport(file)
	g.Expect(err).To(HaveOccurred())
}

func TestPrintTable(t *testing.T) {
	var out strings.Builder
	printTable(&out, []result{
		{suite: "a", passed: 10, skipped: 1, time: 2500 * time.Millisecond},
		{suite: "longer", failed: 1, time: time.Minute, problem: "did not run"},
	})
	NewWithT(t).Expect("\n" + out.String()).To(Equal(`
    suite   passed   failed   skipped   seconds
        a       10        0         1       2.5
   longer        0        1         0      60.0
longer: did not run
10 passed, 1 failed, 1 skipped
`))
}

func TestVerdict(t *testing.T) {
	for name, tc := range map[string]struct {
		results []result
		err     string
	}{
		"all passed":        {results: []result{{passed: 1}, {passed: 2, skipped: 1}}},
		"one failed":        {results: []result{{passed: 1}, {passed: 2, failed: 1}}, err: "1 specs failed"},
		"nothing was run":   {results: []result{{}, {}}, err: "no spec was run"},
		"all were skipped":  {results: []result{{skipped: 3}}, err: "all that was selected was skipped"},
		"there was nothing": {err: "no spec was run"},
	} {
		t.Run(name, func(t *testing.T) {
			g := NewWithT(t)
			err := verdict(tc.results)
			if tc.err == "" {
				g.Expect(err).NotTo(HaveOccurred())
				return
			}
			g.Expect(err).To(MatchError(ContainSubstring(tc.err)))
		})
	}
}

func TestProgress(t *testing.T) {
	g := NewWithT(t)
	var lines []string
	w := progress(func(line string) { lines = append(lines, line) })
	for _, part := range []string{"noise\ne2e: fir", "st\ne2", "e: second\nnot e2e: third\ne2e: unfinished"} {
		g.Expect(w.Write([]byte(part))).To(Equal(len(part)))
	}
	g.Expect(lines).To(Equal([]string{"first", "second"}))
}
