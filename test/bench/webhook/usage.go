package main

import (
	"bufio"
	"bytes"
	"context"
	"fmt"
	"net/http"
	"os"
	"strconv"
	"strings"
	"time"
)

// usage is what a process has used up since its start.
type usage struct {
	processor      time.Duration
	objects, bytes float64
}

// tick is what the kernel counts processor time in.
const tick = 10 * time.Millisecond

func usageOf(ctx context.Context, of target) (usage, error) {
	stat, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", of.pid))
	if err != nil {
		return usage{}, err
	}
	fields := strings.Fields(string(stat[bytes.LastIndexByte(stat, ')')+1:]))
	var found usage
	for _, field := range fields[11:13] { // user and system
		ticks, failure := strconv.ParseInt(field, 10, 64)
		if failure != nil {
			return usage{}, failure
		}
		found.processor += time.Duration(ticks) * tick
	}
	if of.metrics == 0 {
		return found, nil
	}
	request, err := http.NewRequestWithContext(ctx, http.MethodGet, fmt.Sprintf("http://127.0.0.1:%d/metrics", of.metrics), http.NoBody)
	if err != nil {
		return usage{}, err
	}
	response, err := http.DefaultClient.Do(request)
	if err != nil {
		return usage{}, err
	}
	defer func() { _ = response.Body.Close() }()
	for lines := bufio.NewScanner(response.Body); lines.Scan(); {
		for name, into := range map[string]*float64{"go_memstats_mallocs_total ": &found.objects, "go_memstats_alloc_bytes_total ": &found.bytes} {
			if value, is := strings.CutPrefix(lines.Text(), name); is {
				if *into, err = strconv.ParseFloat(value, 64); err != nil {
					return usage{}, err
				}
			}
		}
	}
	return found, nil
}

// resident returns the resident memory of a process in MiB.
func resident(pid int) (float64, error) {
	file, err := os.Open(fmt.Sprintf("/proc/%d/status", pid))
	if err != nil {
		return 0, err
	}
	defer func() { _ = file.Close() }()
	for lines := bufio.NewScanner(file); lines.Scan(); {
		if value, found := strings.CutPrefix(lines.Text(), "VmRSS:"); found {
			kib, err := strconv.ParseFloat(strings.TrimSpace(strings.TrimSuffix(value, "kB")), 64)
			return kib / 1024, err
		}
	}
	return 0, fmt.Errorf("process %d has no resident memory", pid)
}
