package observe

import (
	"testing"
	"time"

	"github.com/go-logr/logr"
	. "github.com/onsi/gomega"
	clocktesting "k8s.io/utils/clock/testing"
)

// Sets with workloads must not fail because autoscalers cannot be watched for a moment.
func TestAutoscalersThatWereSeenCountWhileTheyAreRefusedForAMoment(t *testing.T) {
	g := NewWithT(t)
	clk := clocktesting.NewFakeClock(time.Unix(0, 0))
	s := &scalingStore{options: &AutoscalerOptions{Log: logr.Discard()}, synced: make(chan struct{}), admission: newAdmission(clk)}
	answer := func(err error) { s.turned(s.admission.answered(true, err), err) }
	g.Expect(s.ready()).To(MatchError("the API server has not listed them yet"))
	answer(nil)
	g.Expect(s.Replace(nil, "1")).To(Succeed())
	answer(forbidden)
	clk.Step(9 * time.Second)
	answer(forbidden)
	g.Expect(s.ready()).To(Succeed())
	clk.Step(time.Second)
	answer(forbidden)
	g.Expect(s.ready()).To(MatchError(forbidden))
	g.Expect(s.Replace(nil, "2")).To(Succeed())
	answer(nil)
	g.Expect(s.ready()).To(Succeed())
}
