package managedresource

import (
	"fmt"
	"math"
	"strings"
	"time"

	"github.com/espalier-dev/espalier/test/bench/harness"
)

// gaugeOfGrowth is a figure of the controller that must not grow without limit.
type gaugeOfGrowth struct {
	name, metric string
	// slack is the allowed difference between two quarters, whatever the share is: small whole numbers change by more than a few percent.
	slack float64
	write func(float64) string
}

// maxGrowth is the share by which the average of the last quarter may exceed the average of the second one.
const maxGrowth = 0.05

func gaugesOfGrowth() []gaugeOfGrowth {
	count := func(n float64) string { return fmt.Sprintf("%.1f", n) }
	memory := func(n float64) string { return fmt.Sprintf("%.1f MiB", n/(1<<20)) }
	return []gaugeOfGrowth{
		{"goroutines", "go_goroutines", 20, count},
		{"heap after collection", "go_memstats_heap_alloc_bytes", 1 << 20, memory},
		{"heap in use", "go_memstats_heap_inuse_bytes", 2 << 20, memory},
		{"resident memory", "process_resident_memory_bytes", 4 << 20, memory},
		{"watches on managed objects", "espalier_managedresource_watches", 2, count},
		{"open files", "process_open_fds", 5, count},
	}
}

// sample is the value of each gauge at a time after the beginning.
type sample struct {
	at     time.Duration
	values []float64
}

// readSample reads the values of all gauges from the metrics.
func readSample(metrics harness.Metrics, at time.Duration) (sample, error) {
	s := sample{at: at}
	for _, g := range gaugesOfGrowth() {
		v, err := metrics.Value(g.metric)
		if err != nil {
			return sample{}, err
		}
		s.values = append(s.values, v)
	}
	return s, nil
}

func (s sample) String() string {
	parts := make([]string, 0, len(s.values))
	for i, g := range gaugesOfGrowth() {
		parts = append(parts, g.name+" "+g.write(s.values[i]))
	}
	return strings.Join(parts, ", ")
}

// quarters returns the averages of a gauge over each quarter of the length; a quarter without samples is NaN.
func quarters(samples []sample, gauge int, length time.Duration) (averages [4]float64) {
	var counts [4]float64
	for _, s := range samples {
		quarter := min(3, int(4*s.at/length))
		averages[quarter] += s.values[gauge]
		counts[quarter]++
	}
	for i := range averages {
		averages[i] /= counts[i]
	}
	return averages
}

// judgeGrowth compares the average of the last quarter with the average of the second: during the first one caches are still
// filled.
func (g gaugeOfGrowth) judgeGrowth(averages [4]float64) harness.Verdict {
	return harness.Judge(averages[3]-averages[1] <= max(averages[1]*maxGrowth, g.slack))
}

// growthRows returns the rows of the table, and notes with all quarters.
func growthRows(samples []sample, length time.Duration) []harness.Row {
	gauges := gaugesOfGrowth()
	rows := make([]harness.Row, 0, len(gauges))
	for i, g := range gauges {
		averages := quarters(samples, i, length)
		rows = append(rows, harness.Row{
			Measure: g.name + ", second quarter → last", Workload: "soak of " + length.String(), Enforced: true,
			Target:  fmt.Sprintf("≤ +%.0f %% or +%s", maxGrowth*100, strings.Replace(g.write(g.slack), ".0", "", 1)),
			Verdict: g.judgeGrowth(averages),
			Figure:  fmt.Sprintf("%s → %s (%+.1f %%)", g.write(averages[1]), g.write(averages[3]), (averages[3]/averages[1]-1)*100),
			Note: fmt.Sprintf("%s, averages of the quarters: %s, %s, %s, %s", g.name,
				g.write(averages[0]), g.write(averages[1]), g.write(averages[2]), g.write(averages[3])),
		}.If(!math.IsNaN(averages[1]) && !math.IsNaN(averages[3])))
	}
	return rows
}
