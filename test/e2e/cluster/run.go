package cluster

import (
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/go-logr/logr"
	. "github.com/onsi/ginkgo/v2"
	"github.com/onsi/ginkgo/v2/reporters"
	"github.com/onsi/ginkgo/v2/types"
	. "github.com/onsi/gomega"
	ctrllog "sigs.k8s.io/controller-runtime/pkg/log"
)

// Patience is how long Eventually waits unless a spec sets another time. On a busy machine, events that usually take milliseconds may take
// this long.
const Patience = time.Minute

// ProgressPrefix is the prefix of the output lines with the results of single specs.
const ProgressPrefix = "e2e: "

// Run runs the specs of a suite. A suite has the name of its folder. Run writes <name>.xml into the folder of reports, with the specs that
// were skipped with a reason, and without the specs that the label filter excludes. A suite ends when the namespaces of its specs are gone.
func Run(t *testing.T, name string) {
	t.Helper()
	ctrllog.SetLogger(logr.Discard()) // otherwise the library prints a stack trace
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
	// This is not an AfterSuite, because a suite can have only one.
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
			Expect(reporters.GenerateJUnitReportWithConfig(selected(report), file, reporters.JunitReportConfig{OmitLeafNodeType: true})).
				To(Succeed())
		})
	}
	RunSpecs(t, name)
}

// progress returns the line about a spec; empty if the label filter excludes the spec.
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

// selected removes from the report the specs that the label filter excludes, and all successful steps before and after specs. If a whole
// suite is skipped, its specs have no reason of their own. The report then contains the step that has skipped them, with the reason.
func selected(report Report) Report {
	report.SpecReports = slices.DeleteFunc(slices.Clone(report.SpecReports), func(spec SpecReport) bool {
		return leftOut(spec) || spec.LeafNodeType != types.NodeTypeIt && !spec.Failed() && !skipsSuite(spec)
	})
	return report
}

// skipsSuite reports whether this step has skipped all specs.
func skipsSuite(spec SpecReport) bool {
	return spec.LeafNodeType == types.NodeTypeBeforeSuite && spec.State.Is(types.SpecStateSkipped)
}

func leftOut(spec SpecReport) bool {
	return spec.State.Is(types.SpecStateSkipped) && spec.Failure.Message == ""
}
