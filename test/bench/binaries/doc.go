// Package binaries contains the benchmarks of the binaries other than managedresource-controller. Each file describes at its top
// the objects of the benchmark, the work of the bare client, and the measured values. Unless it says otherwise, controller and bare
// client have the roles of the binary and no client-side limit. Bare clients that use typed objects send protobuf, as
// controller-runtime does.
package binaries

import (
	"fmt"
	"time"

	"github.com/espalier-dev/espalier/test/bench/harness"
	"github.com/espalier-dev/espalier/test/binary"
	"github.com/espalier-dev/espalier/test/local"
)

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

// bench contains the cluster and the process of a benchmark.
type bench struct {
	*harness.Run
	cluster *harness.Cluster
	program *harness.Program
}

// open starts a cluster and prepares the binary.
func open(r *harness.Run, name string, o local.Options, audited ...string) bench {
	c := r.StartCluster("plane", o, audited...)
	return bench{r, c, r.Program(name, c.Identity(name, harness.Namespace, binary.Source, binary.Target))}
}

// memory returns a row with the resident memory of a process and its limit in MiB.
func memory(measure string, p *harness.Program, limit float64) harness.Row {
	return harness.AtMost(measure, "%.0f MiB", float64(p.Usage().Resident)/(1<<20), limit)
}

// atRest waits for the given duration, in which nothing changes, and returns a row with the number of requests of a binary for which counts
// is true.
func atRest(r *harness.Run, c *harness.Cluster, binary string, d time.Duration, counts func(harness.Request) bool) harness.Row {
	r.Pause(3 * time.Second) // the last Events arrive in this time
	place := c.AuditEnd()
	r.Pause(d)
	requests := c.Requests(place, binary).Only(counts)
	return harness.Exactly(fmt.Sprintf("requests in %s at rest", d), len(requests), 0).WithNote("%s", requests)
}
