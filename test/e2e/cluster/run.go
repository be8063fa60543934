package cluster

import (
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	. "github.com/onsi/ginkgo/v2"
	"github.com/onsi/ginkgo/v2/reporters"
	"github.com/onsi/ginkgo/v2/types"
	. "github.com/onsi/gomega"
)

// Patience is how long Eventually waits unless a spec says otherwise. What takes milliseconds on an idle machine is waited
// for as long as a busy one may need.
const Patience = time.Minute

// ProgressPrefix begins the lines of a suite's output that tell, spec by spec, what came of it.
const ProgressPrefix = "e2e: "

// Run runs the specs of a suite, which is called as its folder is. It writes <name>.xml into the folder of reports: specs
// that the label filter leaves out are not in it, those that were skipped with a reason are. A suite ends when the
// namespaces of its specs are gone.
func Run(t *testing.T, name string) {
	t.Helper()
	RegisterFailHandler(Fail)
	SetDefaultEventuallyTimeout(Patience)
	SetDefaultEventuallyPollingInterval(250 * time.Millisecond)
	SetDefaultConsistentlyPollingInterval(250 * time.Millisecond)
	EnforceDefaultTimeoutsWhenUsingContexts()
	ReportAfterEach(func(spec SpecReport) {
		if line := progress(spec); line != "" {
			fmt.Fprintf(os.Stdout, "\n%s%s\n", ProgressPrefix, line)
		}
	})
	// It is no AfterSuite, of which a suite can have but one.
	ReportAfterSuite("end of namespaces", func(ctx SpecContext, _ Report) {
		c, err := Connect()
		Expect(err).NotTo(HaveOccurred())
		Expect(c.NamespacesGone(ctx)).To(Succeed())
	}, NodeTimeout(namespacePatience+time.Minute))
	ReportAfterSuite("skipped as a whole", func(report Report) {
		for _, spec := range report.SpecReports {
			if skipsSuite(spec) {
				fmt.Fprintf(os.Stdout, "\n%s%s\n", ProgressPrefix, progress(spec))
			}
		}
	})
	if folder := os.Getenv(ReportsVariable); folder != "" {
		ReportAfterSuite("report", func(report Report) {
			file := filepath.Join(folder, name+".xml")
			Expect(reporters.GenerateJUnitReportWithConfig(selected(report), file, reporters.JunitReportConfig{OmitLeafNodeType: true})).To(Succeed())
		})
	}
	RunSpecs(t, name)
}

// progress is a line about a spec, or nothing if the label filter leaves it out.
func progress(spec SpecReport) string {
	if leftOut(spec) {
		return ""
	}
	what := spec.FullText()
	if what == "" {
		what = "the whole suite"
	}
	line := fmt.Sprintf("%-7s %6.1f s  %s", spec.State, spec.RunTime.Seconds(), what)
	if spec.Failure.Message != "" {
		line += ": " + strings.Join(strings.Fields(spec.Failure.Message), " ")
	}
	return line
}

// selected leaves out the specs that the label filter leaves out, since nobody meant to run them, and everything before and
// after specs that went well. Specs of a suite that is skipped as a whole have no reason of their own; they are left out for
// what skips them.
func selected(report Report) Report {
	report.SpecReports = slices.DeleteFunc(slices.Clone(report.SpecReports), func(spec SpecReport) bool {
		return leftOut(spec) || spec.LeafNodeType != types.NodeTypeIt && !spec.Failed() && !skipsSuite(spec)
	})
	return report
}

// skipsSuite returns whether this is what skips all specs.
func skipsSuite(spec SpecReport) bool {
	return spec.LeafNodeType == types.NodeTypeBeforeSuite && spec.State.Is(types.SpecStateSkipped)
}

func leftOut(spec SpecReport) bool {
	return spec.State.Is(types.SpecStateSkipped) && spec.Failure.Message == ""
}
