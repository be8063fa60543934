package cluster

import (
	"testing"
	"time"

	"github.com/onsi/ginkgo/v2/types"
	. "github.com/onsi/gomega"
)

func TestProgressAndSelection(t *testing.T) {
	passed := types.SpecReport{
		LeafNodeType: types.NodeTypeIt, LeafNodeText: "works", State: types.SpecStatePassed,
		RunTime: 1500 * time.Millisecond,
	}
	failed := types.SpecReport{
		LeafNodeType: types.NodeTypeIt, LeafNodeText: "breaks", State: types.SpecStateFailed,
		Failure: types.Failure{Message: "expected\n  this"},
	}
	skipped := types.SpecReport{
		LeafNodeType: types.NodeTypeIt, LeafNodeText: "cannot", State: types.SpecStateSkipped,
		Failure: types.Failure{Message: "no policy engine"},
	}
	leftOut := types.SpecReport{LeafNodeType: types.NodeTypeIt, LeafNodeText: "unselected", State: types.SpecStateSkipped}
	prepared := types.SpecReport{LeafNodeType: types.NodeTypeBeforeSuite, State: types.SpecStatePassed}
	unprepared := types.SpecReport{
		LeafNodeType: types.NodeTypeBeforeSuite, State: types.SpecStateFailed,
		Failure: types.Failure{Message: "no cluster"},
	}
	impossible := types.SpecReport{
		LeafNodeType: types.NodeTypeBeforeSuite, State: types.SpecStateSkipped,
		Failure: types.Failure{Message: "no node of ours"},
	}

	g := NewWithT(t)
	g.Expect(progress(passed)).To(Equal("passed     1.5 s  works"))
	g.Expect(progress(failed)).To(Equal("failed     0.0 s  breaks: expected this"))
	g.Expect(progress(skipped)).To(Equal("skipped    0.0 s  cannot: no policy engine"))
	g.Expect(progress(leftOut)).To(BeEmpty())
	g.Expect(progress(impossible)).To(Equal("skipped    0.0 s  the whole suite: no node of ours"))

	all := types.Report{SpecReports: types.SpecReports{prepared, passed, leftOut, failed, skipped, unprepared}}
	g.Expect(selected(all)).To(Equal(types.Report{SpecReports: types.SpecReports{passed, failed, skipped, unprepared}}))
	g.Expect(all.SpecReports).To(HaveLen(6))
	g.Expect(selected(types.Report{SpecReports: types.SpecReports{impossible, leftOut}})).
		To(Equal(types.Report{SpecReports: types.SpecReports{impossible}}))
}
