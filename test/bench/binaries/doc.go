// Package binaries contains the benchmarks of the binaries other than managedresource-controller. Each file says at its top what the
// benchmark creates, what the bare client does, and what is measured. Unless it says otherwise, controller and bare client have the roles
// of the binary and no client-side limit. Bare clients that use typed objects send protobuf, as controller-runtime does.
package binaries

import (
	"errors"
	"time"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"sigs.k8s.io/yaml"

	"github.com/espalier-dev/espalier/test/bench/harness"
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

// job returns the only job of a benchmark, if all sizes are at least 1.
func job(do harness.Job, sizes ...*int) func() ([]harness.Job, error) {
	return func() ([]harness.Job, error) {
		for _, size := range sizes {
			if *size < 1 {
				return nil, errors.New("all numbers must be at least 1")
			}
		}
		return []harness.Job{do}, nil
	}
}

// mebibytes returns a size as a number.
func mebibytes(bytes int64) float64 { return float64(bytes) / (1 << 20) }

// peakMemory returns a row with the maximum resident memory of a process.
func peakMemory(p *harness.Program) harness.Row {
	_, peak := p.Memory()
	return harness.Inform("peak memory", "%s", harness.Mebibytes(peak))
}

// object reads one manifest.
func object(r *harness.Run, namespace, manifest string) *unstructured.Unstructured {
	o := &unstructured.Unstructured{}
	r.Checkf(yaml.Unmarshal([]byte(manifest), &o.Object), "read manifest")
	o.SetNamespace(namespace)
	return o
}

// restRequests returns the requests of a user within a duration in which nothing happens.
func restRequests(r *harness.Run, c *harness.Cluster, user string, d time.Duration) harness.Requests {
	place := c.AuditEnd()
	r.Pause(d)
	requests := c.Requests(place, user).Only(harness.Request.Counts)
	r.Step("at rest: %s", requests)
	return requests
}
