package main

import (
	"bufio"
	"context"
	"fmt"
	"net/http"
	"strconv"
	"strings"
	"time"

	"github.com/espalier-dev/espalier/test/bench/gauge"
)

// usage is the resource usage of a process since its start.
type usage struct {
	processor      time.Duration
	objects, bytes float64
}

func usageOf(ctx context.Context, of target) (usage, error) {
	processor, err := gauge.Processor(of.pid)
	found := usage{processor: processor}
	if err != nil {
		return found, err
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
