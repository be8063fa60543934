package main

import (
	"fmt"
	"slices"
	"strings"
	"time"
)

// mean returns 0 without values.
func mean(values []time.Duration) time.Duration {
	if len(values) == 0 {
		return 0
	}
	var sum time.Duration
	for _, v := range values {
		sum += v
	}
	return sum / time.Duration(len(values))
}

// median returns the lower one of the two middle values of an even number; 0 without values.
func median(values []time.Duration) time.Duration {
	if len(values) == 0 {
		return 0
	}
	sorted := slices.Sorted(slices.Values(values))
	return sorted[(len(sorted)-1)/2]
}

// spread lists the values and their range, in percent of their mean.
func spread(values []time.Duration) string {
	if len(values) == 0 {
		return "none"
	}
	texts := make([]string, 0, len(values))
	for _, v := range values {
		texts = append(texts, seconds(v))
	}
	apart := float64(slices.Max(values)-slices.Min(values)) / float64(mean(values)) * 100
	return fmt.Sprintf("%s (%.0f %% apart)", strings.Join(texts, ", "), apart)
}

// percentile returns the smallest value that at least that percentage of the values does not exceed; 0 without values.
func percentile(values []time.Duration, percent int) time.Duration {
	if len(values) == 0 {
		return 0
	}
	sorted := slices.Sorted(slices.Values(values))
	rank := (len(sorted)*percent + 99) / 100
	return sorted[max(1, rank)-1]
}
