package managedresource

import (
	"fmt"
	"math"
	"strings"
	"testing"
	"time"

	. "github.com/onsi/gomega"

	"github.com/espalier-dev/espalier/test/bench/harness"
)

func TestQuartersAreAveragesByTime(t *testing.T) {
	g := NewWithT(t)
	at := func(second int, v float64) sample {
		return sample{at: time.Duration(second) * time.Second, values: []float64{-1, v}}
	}
	samples := []sample{at(0, 1), at(24, 3), at(25, 10), at(49, 20), at(50, 7), at(75, 4), at(99, 5), at(101, 6)}
	g.Expect(quarters(samples, 1, 100*time.Second)).To(Equal([4]float64{2, 15, 7, 5}))

	empty := quarters(samples[:1], 1, 100*time.Second)
	g.Expect(empty[0]).To(Equal(1.0))
	g.Expect(math.IsNaN(empty[1]) && math.IsNaN(empty[3])).To(BeTrue())
}

func TestJudgeGrowth(t *testing.T) {
	gauge := gaugeOfGrowth{slack: 10}
	for name, tc := range map[string]struct {
		averages [4]float64
		want     harness.Verdict
	}{
		"the same":                              {[4]float64{1, 1000, 1, 1000}, harness.Pass},
		"five percent more":                     {[4]float64{1, 1000, 1, 1050}, harness.Pass},
		"more than that":                        {[4]float64{1, 1000, 1, 1051}, harness.Miss},
		"a small number within the slack":       {[4]float64{1, 20, 1, 30}, harness.Pass},
		"a small number beyond it":              {[4]float64{1, 20, 1, 30.5}, harness.Miss},
		"less":                                  {[4]float64{1, 1000, 1, 10}, harness.Pass},
		"much more than in the first quarter":   {[4]float64{1, 1000, 1000, 1000}, harness.Pass},
		"a high third quarter is not looked at": {[4]float64{1, 1000, 9000, 1000}, harness.Pass},
	} {
		t.Run(name, func(t *testing.T) { NewWithT(t).Expect(gauge.judgeGrowth(tc.averages)).To(Equal(tc.want)) })
	}
}

// metricsOfGrowth returns the controller's metrics, with that number of goroutines.
func metricsOfGrowth(t *testing.T, goroutines int) harness.Metrics {
	t.Helper()
	page := fmt.Sprintf(`go_goroutines %d
go_memstats_heap_alloc_bytes 1.048576e+07
go_memstats_heap_inuse_bytes 1.572864e+07
process_resident_memory_bytes 4.194304e+07
espalier_managedresource_watches 8
process_open_fds 14
`, goroutines)
	metrics, err := harness.ParseMetrics([]byte(page))
	NewWithT(t).Expect(err).NotTo(HaveOccurred())
	return metrics
}

func TestReadSample(t *testing.T) {
	g := NewWithT(t)
	got, err := readSample(metricsOfGrowth(t, 141), time.Minute)
	g.Expect(err).NotTo(HaveOccurred())
	g.Expect(got).To(Equal(sample{at: time.Minute, values: []float64{141, 10 << 20, 15 << 20, 40 << 20, 8, 14}}))
	g.Expect(got.String()).To(Equal("goroutines 141.0, heap after collection 10.0 MiB, heap in use 15.0 MiB, resident memory 40.0 MiB, " +
		"watches on managed objects 8.0, open files 14.0"))
	_, err = readSample(harness.Metrics{"go_goroutines": {}}, 0)
	g.Expect(err).To(MatchError("there is no metric go_memstats_heap_alloc_bytes"))
}

func TestGrowthRowsNameWhatGrew(t *testing.T) {
	g := NewWithT(t)
	var samples []sample
	for i := range 8 {
		taken, err := readSample(metricsOfGrowth(t, 100+i*10), time.Duration(i)*time.Minute)
		g.Expect(err).NotTo(HaveOccurred())
		samples = append(samples, taken)
	}
	rows := growthRows(samples, 8*time.Minute)
	g.Expect(rows[0]).To(Equal(harness.Row{
		Measure: "goroutines, second quarter → last", Workload: "soak of 8m0s", Target: "≤ +5 % or +20", Figure: "125.0 → 165.0 (+32.0 %)",
		Note: "goroutines, averages of the quarters: 105.0, 125.0, 145.0, 165.0", Verdict: harness.Miss, Enforced: true,
	}))
	g.Expect(rows[1]).To(Equal(harness.Row{
		Measure: "heap after collection, second quarter → last", Workload: "soak of 8m0s", Target: "≤ +5 % or +1 MiB",
		Figure: "10.0 MiB → 10.0 MiB (+0.0 %)", Note: "heap after collection, averages of the quarters: 10.0 MiB, 10.0 MiB, 10.0 MiB, 10.0 MiB",
		Verdict: harness.Pass, Enforced: true,
	}))
	err := harness.Enforce(rows)
	g.Expect(err).To(MatchError("soak of 8m0s, goroutines, second quarter → last: 125.0 → 165.0 (+32.0 %), target ≤ +5 % or +20"))
}

func TestGrowthThatWasNotMeasuredIsNotAPass(t *testing.T) {
	g := NewWithT(t)
	at := func(minute int) sample {
		return sample{at: time.Duration(minute) * time.Minute, values: make([]float64, 6)}
	}
	for _, samples := range [][]sample{nil, {at(1)}, {at(1), at(16), at(31)}, {at(46)}} {
		rows := growthRows(samples, time.Hour)
		g.Expect(rows).To(HaveLen(6))
		for _, r := range rows {
			g.Expect(r.Verdict).To(Equal(harness.Unmeasured), r.Measure)
			g.Expect(r.Figure+r.Note).To(Equal("–"), r.Measure)
		}
		g.Expect(strings.Count(harness.Enforce(rows).Error(), "\n")).To(Equal(5))
	}
}
