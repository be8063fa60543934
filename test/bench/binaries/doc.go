// Package binaries contains the benchmarks of the binaries other than managedresource-controller. Each file says at its top what the
// benchmark creates, what the bare client does, and what is measured. Unless it says otherwise, controller and bare client have the roles
// of the binary and no client-side limit. Bare clients that use typed objects send protobuf, as controller-runtime does.
package binaries

import (
	"context"
	"errors"
	"fmt"
	"time"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"sigs.k8s.io/yaml"

	"github.com/espalier-dev/espalier/test/bench/harness"
	"github.com/espalier-dev/espalier/test/local"
)

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
	_, peak, err := harness.Memory(p.PID())
	return harness.Inform("peak memory", "%s", harness.Mebibytes(peak)).If(err == nil)
}

// object reads one manifest.
func object(namespace, manifest string) (*unstructured.Unstructured, error) {
	o := &unstructured.Unstructured{}
	if err := yaml.Unmarshal([]byte(manifest), &o.Object); err != nil {
		return nil, fmt.Errorf("read manifest: %w", err)
	}
	o.SetNamespace(namespace)
	return o, nil
}

// restRequests returns the requests of a user within a duration in which nothing happens.
func restRequests(ctx context.Context, r *harness.Run, c *harness.Cluster, user string, d time.Duration) (harness.Requests, error) {
	place, err := c.Audit.End()
	if err != nil {
		return nil, err
	}
	err = local.Pause(ctx, d)
	if err != nil {
		return nil, err
	}
	all, _, err := c.Audit.Since(place, user)
	requests := all.Only(harness.Request.Counts)
	r.Step("at rest: %s", requests)
	return requests, err
}
