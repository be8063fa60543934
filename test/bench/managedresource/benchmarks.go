// Package managedresource contains the benchmarks of managedresource-controller.
//
// A workload is compared with a bare client that creates and deletes the same objects in the same run, in this order: the bare client,
// converging, the bare client again, rest, drift repair, a change in every set between two by the bare client, a restart, the deletion of
// all sets, the bare client a third time. The floor for creating is the mean of the bare client's runs before and after converging, that
// for deleting the mean of those before and after the deletion; their difference shows how idle the machine was. Controller and bare client
// each have a ServiceAccount with all rights in the target, JSON as their content type and no client-side limit; the API server's audit log
// contains the requests of both.
package managedresource

import (
	"errors"
	"flag"
	"fmt"
	"strconv"
	"strings"
	"time"

	"github.com/espalier-dev/espalier/test/bench/harness"
)

// All returns the benchmarks.
func All() []harness.Benchmark {
	return []harness.Benchmark{workloadsBenchmark(), latencyBenchmark(), scaleBenchmark(), secretsBenchmark(), soakBenchmark()}
}

func workloadsBenchmark() harness.Benchmark {
	text := "50x40,100x100"
	w := workload{calm: time.Second}
	return harness.Benchmark{
		Name: "workloads", Summary: "sets of managedresource-controller, from creation to deletion",
		Flags: func(flags *flag.FlagSet) {
			flags.StringVar(&text, "workloads", text, "what to measure: sets x objects in each, separated by commas")
			flags.BoolVar(&w.twoClusters, "two-clusters", false, "put the objects of the workloads into another cluster than their sets")
			w.flags(flags)
		},
		Smoke: func() { text, w.rest, w.repairs = "5x20", 15*time.Second, 10 },
		Jobs: func() (jobs []harness.Job, err error) {
			sizes, err := parseSizes(text)
			if err != nil {
				return nil, fmt.Errorf("-workloads: %w", err)
			}
			for _, size := range sizes {
				each := w
				each.size = size
				jobs = append(jobs, each.measure)
			}
			return jobs, w.validate()
		},
	}
}

// flags defines the flags that all workloads have.
func (w *workload) flags(flags *flag.FlagSet) {
	flags.DurationVar(&w.rest, "rest", 2*time.Minute, "length of the window at rest")
	flags.IntVar(&w.repairs, "repairs", 50, "how many objects to edit or delete")
}

func (w *workload) validate() error {
	if w.rest <= 0 || w.repairs <= 0 {
		return errors.New("-rest and -repairs must be more than 0")
	}
	return nil
}

// parseSizes parses "50x40,100x100".
func parseSizes(text string) ([]size, error) {
	var sizes []size
	for field := range strings.SplitSeq(text, ",") {
		sets, objects, found := strings.Cut(strings.TrimSpace(field), "x")
		n, errSets := strconv.Atoi(sets)
		m, errObjects := strconv.Atoi(objects)
		if !found || errSets != nil || errObjects != nil || n < 1 || n > 9999 || m < 10 || m > 999 {
			return nil, fmt.Errorf("%q is not a workload such as 50x40: 1 to 9999 sets of 10 to 999 objects", field)
		}
		sizes = append(sizes, size{n, m})
	}
	return sizes, nil
}

func latencyBenchmark() harness.Benchmark {
	l := latency{deployments: 100, together: []int{1, 10}}
	return harness.Benchmark{
		Name: "latency", Summary: "latency of the conditions of sets",
		Smoke: func() { l = latency{deployments: 6, together: []int{1, 3}} },
		Jobs:  func() ([]harness.Job, error) { return []harness.Job{l.measure}, nil },
	}
}

func scaleBenchmark() harness.Benchmark {
	w, sizes := workload{calm: time.Second}, []size{{1000, 10}, {500, 100}}
	across, many := size{1000, 10}, 0
	return harness.Benchmark{
		Name: "scale", Summary: "large workloads, one across two clusters, and very many foreign Secrets",
		Flags: func(flags *flag.FlagSet) {
			w.flags(flags)
			flags.IntVar(&many, "secrets", 80000, "how many foreign Secrets there are")
		},
		Smoke: func() {
			w, sizes, across, many = workload{rest: time.Second, repairs: 4, calm: 100 * time.Millisecond}, nil, size{3, 10}, 0
		},
		Jobs: func() ([]harness.Job, error) {
			jobs := make([]harness.Job, 0, len(sizes)+2)
			for _, each := range append(sizes, across) {
				next := w
				next.size, next.twoClusters = each, len(jobs) == len(sizes)
				jobs = append(jobs, next.measure)
			}
			if many > 0 {
				jobs = append(jobs, besideMany(many).measure)
			}
			return jobs, w.validate()
		},
	}
}

// besideMany returns the measurement with that many foreign Secrets.
func besideMany(n int) foreignSecrets {
	return foreignSecrets{secrets: n, sets: size{10, 10}, starts: 3, wait: time.Minute}
}

func secretsBenchmark() harness.Benchmark {
	f := besideMany(0)
	return harness.Benchmark{
		Name: "secrets", Summary: "start-up and memory with very many foreign Secrets",
		Flags: func(flags *flag.FlagSet) {
			flags.IntVar(&f.secrets, "secrets", 80000, "how many foreign Secrets there are")
		},
		Smoke: func() { f = foreignSecrets{secrets: 200, sets: size{2, 10}, starts: 1, wait: time.Second} },
		Jobs: func() ([]harness.Job, error) {
			if f.secrets < 1 {
				return nil, errors.New("-secrets must be at least 1")
			}
			return []harness.Job{f.measure}, nil
		},
	}
}

func soakBenchmark() harness.Benchmark {
	s := soak{churned: 12, steady: 10, secrets: 2000}
	return harness.Benchmark{
		Name: "soak", Summary: "growth of the controller while everything changes",
		Flags: func(flags *flag.FlagSet) {
			flags.DurationVar(&s.length, "length", time.Hour, "how long everything changes")
		},
		Smoke: func() { s = soak{length: 10 * time.Second, churned: 3, steady: 2, secrets: 40} },
		Jobs: func() ([]harness.Job, error) {
			if s.length <= 0 {
				return nil, errors.New("-length must be more than 0")
			}
			s.interval = min(30*time.Second, s.length/20)
			return []harness.Job{s.measure}, nil
		},
	}
}
