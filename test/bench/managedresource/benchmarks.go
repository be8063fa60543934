// Package managedresource contains the benchmarks of managedresource-controller.
//
// A workload is compared with a bare client that creates and deletes the same objects in the same run, in this order: the bare client;
// creation of the sets until they are applied (converging); the bare client again; rest; drift repair; a change in every set, with a change
// by the bare client before and after it; a restart; the deletion of all sets; the bare client a third time. The floor for creating is the
// mean of the bare client's runs before and after converging. The floor for deleting is the mean of its runs before and after the deletion.
// The difference between two such runs shows how idle the machine was. Controller and bare client each have a ServiceAccount with all
// rights in the target, JSON as their content type and no client-side limit; the API server's audit log contains the requests of both.
package managedresource

import (
	"flag"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/espalier-dev/espalier/test/bench/harness"
)

// All returns the benchmarks.
func All() []harness.Benchmark {
	return []harness.Benchmark{
		workloadsBenchmark(), identityBenchmark(), latencyBenchmark(), scaleBenchmark(), secretsBenchmark(), soakBenchmark(),
	}
}

func workloadsBenchmark() harness.Benchmark {
	var text string
	w := workload{}
	return harness.Benchmark{
		Name: "workloads", Summary: "sets of managedresource-controller, from creation to deletion",
		Sizes: append(w.phases(15*time.Second, 10),
			harness.Sized(&text, "workloads", "50x40,100x100", "5x20", "what to measure: sets x objects in each, separated by commas")),
		Flags: func(flags *flag.FlagSet) {
			flags.BoolVar(&w.twoClusters, "two-clusters", false, "put the objects of the workloads into another cluster than their sets")
		},
		Jobs: func() ([]harness.Job, error) {
			sizes, err := parseSizes(text)
			jobs := make([]harness.Job, 0, len(sizes))
			for _, w.size = range sizes {
				jobs = append(jobs, w.measure) // the method value contains a copy of w
			}
			return jobs, err
		},
	}
}

func identityBenchmark() harness.Benchmark {
	i := &identity{workload: workload{size: size{50, 40}}}
	return harness.Benchmark{
		Name: "identity", Summary: "sets that are applied as a ServiceAccount, against the same sets with the rights of the controller",
		Sizes: append(i.phases(5*time.Second, 1),
			harness.Sized(&i.rounds, "rounds", 6, 1, "how often to measure with and without"),
			harness.Sized(&i.sets, "", 50, 3, ""), harness.Sized(&i.objects, "", 40, 10, "")),
		Jobs: func() ([]harness.Job, error) { return []harness.Job{i.measure}, nil },
	}
}

// phases are the sizes that all workloads have, with their tiny values.
func (w *workload) phases(rest time.Duration, repairs int) []harness.Size {
	return []harness.Size{
		harness.Sized(&w.rest, "rest", 2*time.Minute, rest, "length of the window at rest"),
		harness.Sized(&w.repairs, "repairs", 50, repairs, "how many objects to edit or delete"),
		harness.Sized(&w.calm, "", time.Second, 100*time.Millisecond, ""),
	}
}

// parseSizes parses "50x40,100x100".
func parseSizes(text string) ([]size, error) {
	var sizes []size
	for field := range strings.SplitSeq(text, ",") {
		sets, objects, found := strings.Cut(strings.TrimSpace(field), "x")
		n, errSets := strconv.Atoi(sets)
		m, errObjects := strconv.Atoi(objects)
		if !found || errSets != nil || errObjects != nil || n < 1 || n > 9999 || m < 10 || m > 999 {
			return nil, fmt.Errorf("-workloads: %q is not a workload such as 50x40: 1 to 9999 sets of 10 to 999 objects", field)
		}
		sizes = append(sizes, size{n, m})
	}
	return sizes, nil
}

func latencyBenchmark() harness.Benchmark {
	l := &latency{}
	return harness.Benchmark{
		Name: "latency", Summary: "latency of the conditions of sets",
		Sizes: []harness.Size{harness.Sized(&l.deployments, "", 100, 6, ""), harness.Sized(&l.together, "", 10, 3, "")},
		Jobs:  harness.One(l.measure),
	}
}

func scaleBenchmark() harness.Benchmark {
	var text string
	w, f := workload{}, &foreignSecrets{}
	return harness.Benchmark{
		Name: "scale", Summary: "large workloads, one across two clusters, and very many foreign Secrets",
		Sizes: append(slices.Concat(w.phases(time.Second, 4), f.sizes(0)),
			harness.Sized(&text, "", "1000x10,500x100,1000x10", "3x10", "")),
		Jobs: func() ([]harness.Job, error) {
			sizes, err := parseSizes(text)
			jobs := make([]harness.Job, 0, len(sizes)+1)
			for i, each := range sizes {
				w.size, w.twoClusters = each, i == len(sizes)-1
				jobs = append(jobs, w.measure) // the method value contains a copy
			}
			if f.secrets > 0 {
				jobs = append(jobs, f.measure)
			}
			return jobs, err
		},
	}
}

func secretsBenchmark() harness.Benchmark {
	f := &foreignSecrets{}
	return harness.Benchmark{
		Name: "secrets", Summary: "start-up and memory with very many foreign Secrets",
		Sizes: f.sizes(200),
		Jobs:  harness.One(f.measure),
	}
}

// sizes returns the sizes of the measurement. tiny is the tiny number of Secrets; if it is 0, the user may set 0 too.
func (f *foreignSecrets) sizes(tiny int) []harness.Size {
	return []harness.Size{
		harness.Sized(&f.secrets, "secrets", 80000, tiny, "how many foreign Secrets there are"),
		harness.Sized(&f.sets, "", 10, 2, ""),
		harness.Sized(&f.starts, "", 3, 1, ""),
		harness.Sized(&f.wait, "", time.Minute, time.Second, ""),
	}
}

func soakBenchmark() harness.Benchmark {
	s := &soak{}
	return harness.Benchmark{
		Name: "soak", Summary: "growth of the controller while everything changes",
		Sizes: []harness.Size{
			harness.Sized(&s.length, "length", time.Hour, 10*time.Second, "how long everything changes"),
			harness.Sized(&s.churned, "", 12, 3, ""),
			harness.Sized(&s.steady, "", 10, 2, ""),
			harness.Sized(&s.secrets, "", 2000, 40, ""),
		},
		Jobs: harness.One(s.measure),
	}
}
