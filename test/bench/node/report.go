package main

import (
	"errors"
	"fmt"
	"maps"
	"runtime"
	"slices"
	"strings"
	"time"
)

// target is the maximum of the median.
const target = time.Second

func (b *bench) report(requests map[string]int, memory string) error {
	ours, early := b.seen.latencies("ours-")
	floor, _ := b.seen.latencies(floorPrefix)
	if b.seen.fault != nil {
		return b.seen.fault
	}
	pods := "created by DaemonSet controller and scheduler of Kubernetes"
	if b.ownPods {
		pods = "created by the benchmark, as DaemonSet controller and scheduler are slow beside it"
	}
	b.say("\n%d Nodes, %d critical Pods each, %s; all within %s; %d cores, %s/%s",
		b.nodes, b.daemonSets, pods, b.took.Round(time.Second), runtime.NumCPU(), runtime.GOOS, runtime.GOARCH)
	b.say("from the last critical Pod being ready to the taint being gone:")
	b.say("  node-controller   %s", spread(ours))
	b.say("  bare client       %s", spread(floor))
	median, fastest := percentile(ours, 50), percentile(floor, 50)
	if fastest > 0 {
		b.say("  ratio of medians  %.2f", float64(median)/float64(fastest))
	}
	met := median <= target && early == 0
	b.say("  target: median ≤ %s: %s", target, map[bool]string{true: "met", false: "NOT MET"}[met])
	b.say("taints that went before the last Pod was ready: %d (target 0)", early)
	sum := 0
	parts := make([]string, 0, len(requests))
	for _, name := range slices.Sorted(maps.Keys(requests)) {
		sum += requests[name]
		parts = append(parts, fmt.Sprintf("%s %.2f", name, float64(requests[name])/float64(b.nodes)))
	}
	b.say("requests per Node: %.2f (%s)", float64(sum)/float64(b.nodes), strings.Join(parts, ", "))
	b.say("peak memory of node-controller: %s", memory)
	if b.enforce && !met {
		return errors.New("a target was missed")
	}
	return nil
}

func spread(sorted []time.Duration) string {
	return fmt.Sprintf("median %s, 99 %% %s, slowest %s (%d Nodes)", show(percentile(sorted, 50)), show(percentile(sorted, 99)), show(percentile(sorted, 100)), len(sorted))
}

func show(d time.Duration) string { return d.Round(100 * time.Microsecond).String() }

// percentile returns the smallest value that at least that percentage of the sorted values does not exceed; 0 without values.
func percentile(sorted []time.Duration, percent int) time.Duration {
	if len(sorted) == 0 {
		return 0
	}
	return sorted[max(1, (len(sorted)*percent+99)/100)-1]
}
