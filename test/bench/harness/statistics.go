package harness

import (
	"fmt"
	"slices"
	"strings"
	"time"
)

// Mean returns the mean of the values; 0 if there are none.
func Mean(values []time.Duration) time.Duration {
	if len(values) == 0 {
		return 0
	}
	var sum time.Duration
	for _, v := range values {
		sum += v
	}
	return sum / time.Duration(len(values))
}

// Percentile returns the smallest of the values for which at least the given percentage of all values is equal or smaller. It returns 0
// without values.
func Percentile(values []time.Duration, percent int) time.Duration {
	if len(values) == 0 {
		return 0
	}
	sorted := slices.Sorted(slices.Values(values))
	return sorted[max(1, (len(sorted)*percent+99)/100)-1]
}

// Median returns the lower one of the two middle values of an even number; 0 without values.
func Median(values []time.Duration) time.Duration { return Percentile(values, 50) }

// Longest returns the largest value; 0 if there are none.
func Longest(values []time.Duration) time.Duration { return Percentile(values, 100) }

// Spread returns a text with the values and the difference between the largest and the smallest, in percent of their mean.
func Spread(values []time.Duration) string {
	if len(values) == 0 {
		return "none"
	}
	texts := make([]string, 0, len(values))
	for _, v := range values {
		texts = append(texts, Seconds(v))
	}
	apart := float64(slices.Max(values)-slices.Min(values)) / float64(Mean(values)) * 100
	return fmt.Sprintf("%s (%.0f %% apart)", strings.Join(texts, ", "), apart)
}

// Seconds formats a duration as seconds or, below one second, as milliseconds.
func Seconds(d time.Duration) string {
	if d < time.Second {
		return fmt.Sprintf("%d ms", d.Milliseconds())
	}
	return fmt.Sprintf("%.2f s", d.Seconds())
}

// Milliseconds formats latencies.
func Milliseconds(d time.Duration) string { return fmt.Sprintf("%.0f ms", InMilliseconds(d)) }

// InMilliseconds returns a duration as a number.
func InMilliseconds(d time.Duration) float64 { return d.Seconds() * 1000 }

// Mebibytes formats sizes.
func Mebibytes(bytes int64) string { return fmt.Sprintf("%.0f MiB", float64(bytes)/(1<<20)) }
