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

func TestPairsAreCompared(t *testing.T) {
	g := NewWithT(t)
	seconds := func(values ...int) (all []time.Duration) {
		for _, each := range values {
			all = append(all, time.Duration(each)*time.Second)
		}
		return all
	}
	row := Paired("converge", 1.06, seconds(2, 30, 4, 11), seconds(2, 20, 5, 10)) // 0.8, 1, 1.1, 1.5
	g.Expect(row.Figure).To(Equal("1.05"))
	g.Expect(row.Verdict).To(Equal(Pass))
	g.Expect(row.Note).To(HavePrefix("converge: 2.00 s, 30.00 s, 4.00 s, 11.00 s ("))
	g.Expect(Paired("converge", 1.05, seconds(3, 2), seconds(2)).Figure).To(Equal("1.50"))
	g.Expect(Paired("converge", 1.05, seconds(3), seconds(2)).Verdict).To(Equal(Miss))
	g.Expect(Paired("converge", 1.05, seconds(3), nil).Verdict).To(Equal(Unmeasured))
}
