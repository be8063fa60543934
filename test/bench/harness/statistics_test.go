package harness

import (
	"testing"
	"time"

	. "github.com/onsi/gomega"
)

func TestStatistics(t *testing.T) {
	g := NewWithT(t)
	odd := []time.Duration{3 * time.Second, time.Second, 11 * time.Second}
	g.Expect(Mean(odd)).To(Equal(5 * time.Second))
	g.Expect(Median(odd)).To(Equal(3 * time.Second))
	g.Expect(Longest(odd)).To(Equal(11 * time.Second))
	g.Expect(odd).To(Equal([]time.Duration{3 * time.Second, time.Second, 11 * time.Second}), "the values keep their order")
	g.Expect(Median([]time.Duration{4, 2, 3, 1})).To(Equal(time.Duration(2)))
	g.Expect([]time.Duration{Mean(nil), Median(nil), Longest(nil)}).To(Equal([]time.Duration{0, 0, 0}))
	g.Expect(Spread([]time.Duration{900 * time.Millisecond, 1100 * time.Millisecond})).To(Equal("900 ms, 1.10 s (20 % apart)"))
	g.Expect(Spread(nil)).To(Equal("none"))
}

func TestPercentileIsTheNearestRank(t *testing.T) {
	g := NewWithT(t)
	var hundred []time.Duration
	for i := range 100 {
		hundred = append(hundred, time.Duration(100-i))
	}
	g.Expect(Percentile(hundred, 95)).To(Equal(time.Duration(95)))
	g.Expect(Percentile(hundred, 100)).To(Equal(time.Duration(100)))
	g.Expect(Percentile(hundred, 0)).To(Equal(time.Duration(1)))
	g.Expect(Percentile([]time.Duration{3, 1, 2}, 95)).To(Equal(time.Duration(3)))
	g.Expect(Percentile([]time.Duration{7}, 95)).To(Equal(time.Duration(7)))
	g.Expect(Percentile(nil, 95)).To(BeZero())
}
