package managedresource

import (
	"flag"
	"io"
	"testing"

	. "github.com/onsi/gomega"

	"github.com/espalier-dev/espalier/test/bench/harness"
)

func TestBenchmarks(t *testing.T) {
	for name, tc := range map[string]struct {
		benchmark harness.Benchmark
		args      []string
		smoke     bool
		jobs      int
		err       string
	}{
		"both published workloads are the default": {benchmark: workloadsBenchmark(), jobs: 2},
		"other workloads":                          {benchmark: workloadsBenchmark(), args: []string{"-workloads", "7x11, 8x12, 9x13"}, jobs: 3},
		"a tiny workload":                          {benchmark: workloadsBenchmark(), smoke: true, jobs: 1},
		"identity":                                 {benchmark: identityBenchmark(), args: []string{"-rounds", "2"}, jobs: 1},
		"latency":                                  {benchmark: latencyBenchmark(), jobs: 1},
		"scale is three workloads and many Secrets": {benchmark: scaleBenchmark(), jobs: 4},
		"scale without Secrets":                     {benchmark: scaleBenchmark(), args: []string{"-secrets", "0"}, jobs: 3},
		"a tiny scale is two clusters":              {benchmark: scaleBenchmark(), smoke: true, jobs: 1},
		"many Secrets alone":                        {benchmark: secretsBenchmark(), args: []string{"-secrets", "7"}, jobs: 1},
		"a soak":                                    {benchmark: soakBenchmark(), args: []string{"-length", "1m"}, jobs: 1},
		"a size without objects": {
			benchmark: workloadsBenchmark(), args: []string{"-workloads", "50"},
			err: `-workloads: "50" is not a workload such as 50x40: 1 to 9999 sets of 10 to 999 objects`,
		},
		"a size that lacks the changing part": {
			benchmark: workloadsBenchmark(), args: []string{"-workloads", "5x9"},
			err: `-workloads: "5x9" is not a workload such as 50x40: 1 to 9999 sets of 10 to 999 objects`,
		},
		"no time at rest": {benchmark: scaleBenchmark(), args: []string{"-rest", "0s"}, err: "-rest: 0s is too small"},
		"no Secrets":      {benchmark: secretsBenchmark(), args: []string{"-secrets", "0"}, err: "-secrets: 0 is too small"},
		"no time to soak": {benchmark: soakBenchmark(), args: []string{"-length", "-1s"}, err: "-length: -1s is too small"},
	} {
		t.Run(name, func(t *testing.T) {
			g := NewWithT(t)
			flags := flag.NewFlagSet(name, flag.ContinueOnError)
			flags.SetOutput(io.Discard)
			tc.benchmark.Define(flags)
			g.Expect(flags.Parse(tc.args)).To(Succeed())
			jobs, err := tc.benchmark.Plan(tc.smoke)
			if tc.err != "" {
				g.Expect(err).To(MatchError(tc.err))
				return
			}
			g.Expect(err).NotTo(HaveOccurred())
			g.Expect(jobs).To(HaveLen(tc.jobs))
		})
	}
}

func TestParseSizes(t *testing.T) {
	NewWithT(t).Expect(parseSizes("7x11, 8x12")).To(Equal([]size{{7, 11}, {8, 12}}))
}
