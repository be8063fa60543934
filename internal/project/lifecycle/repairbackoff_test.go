package lifecycle

import (
	"testing"
	"time"

	. "github.com/onsi/gomega"
)

func TestRepairsOfOneObjectDelayNoOther(t *testing.T) {
	g, b, now := NewWithT(t), &reconciledProjects{}, time.Unix(1000, 0)
	var pauses []time.Duration
	for range 3 {
		pauses = append(pauses, b.recordRepair("alpha", "it", now))
	}
	g.Expect(pauses).To(Equal([]time.Duration{0, 0, 10 * time.Second}))
	g.Expect(b.remainingPause("alpha", "it", now)).To(Equal(10 * time.Second))
	g.Expect(b.remainingPause("alpha", "other", now)).To(BeZero())
	g.Expect(b.remainingPause("beta", "it", now)).To(BeZero())
	b.projects.Forget("alpha")
	g.Expect(b.remainingPause("alpha", "it", now)).To(BeZero())
}
