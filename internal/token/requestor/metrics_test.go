package requestor

import (
	"testing"
	"time"

	. "github.com/onsi/gomega"
)

func TestSummarize(t *testing.T) {
	got := summarize(now, []entry{
		{held: true, expiry: now.Add(30 * time.Second)},
		{held: true, expiry: now.Add(3 * time.Hour), failure: "x"},
		{held: true, expiry: now.Add(-time.Hour)},
		{held: true},
		{failure: "y"},
	})
	NewWithT(t).Expect(got).To(Equal(summary{
		states:  map[string]int{"valid": 2, "expired": 1, "unknown": 1, "missing": 1},
		failing: 2, known: 3, sum: 10830, soonest: -3600,
		buckets: map[float64]uint64{0: 1, 60: 2, 600: 2, 3600: 2, 7200: 2, 21600: 3, 43200: 3, 86400: 3, 604800: 3},
	}))
}
