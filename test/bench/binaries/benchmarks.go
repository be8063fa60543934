package binaries

import "github.com/espalier-dev/espalier/test/bench/harness"

// All returns the benchmarks. They are the group "binaries", which make bench-binaries runs.
func All() []harness.Benchmark {
	all := []harness.Benchmark{
		tokenBenchmark(), csrBenchmark(), networkPolicyBenchmark(), nodeBenchmark(), webhookBenchmark(), projectBenchmark(),
	}
	for i := range all {
		all[i].Group = "binaries"
	}
	return all
}
