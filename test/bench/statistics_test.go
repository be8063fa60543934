package main

import (
	"testing"
	"time"

	. "github.com/onsi/gomega"
)

func TestStatistics(t *testing.T) {
	g := NewWithT(t)
	odd := []time.Duration{3 * time.Second, time.Second, 11 * time.Second}
	g.Expect(mean(odd)).To(Equal(5 * time.Second))
	g.Expect(median(odd)).To(Equal(3 * time.Second))
	g.Expect(longest(odd)).To(Equal(11 * time.Second))
	g.Expect(odd).To(Equal([]time.Duration{3 * time.Second, time.Second, 11 * time.Second}), "the order of what was handed in stays")
	g.Expect(median([]time.Duration{4, 2, 3, 1})).To(Equal(time.Duration(2)))
	g.Expect([]time.Duration{mean(nil), median(nil), longest(nil)}).To(Equal([]time.Duration{0, 0, 0}))
	g.Expect(spread([]time.Duration{900 * time.Millisecond, 1100 * time.Millisecond})).To(Equal("900 ms, 1.10 s (20 % apart)"))
	g.Expect(spread(nil)).To(Equal("none"))
}

func TestPercentileIsTheNearestRank(t *testing.T) {
	g := NewWithT(t)
	var hundred []time.Duration
	for i := range 100 {
		hundred = append(hundred, time.Duration(100-i))
	}
	g.Expect(percentile(hundred, 95)).To(Equal(time.Duration(95)))
	g.Expect(percentile(hundred, 100)).To(Equal(time.Duration(100)))
	g.Expect(percentile(hundred, 0)).To(Equal(time.Duration(1)))
	g.Expect(percentile([]time.Duration{3, 1, 2}, 95)).To(Equal(time.Duration(3)))
	g.Expect(percentile([]time.Duration{7}, 95)).To(Equal(time.Duration(7)))
	g.Expect(percentile(nil, 95)).To(BeZero())
}
