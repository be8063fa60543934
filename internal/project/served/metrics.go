package served

import (
	"github.com/prometheus/client_golang/prometheus"

	"github.com/espalier-dev/espalier/internal/process"
)

// newMetrics returns the metrics. They read the findings at each scrape: these may change at any time, and from more than one goroutine.
func newMetrics(finding func(Kind) Finding) prometheus.Collector {
	// Kinds are `Shoot`, `Plant`, `BackupEntry`, `SecretBinding`, `CredentialsBinding`, `Quota` and `Secret`. States are `served`, `absent`
	// (certainly not served) and `unknown` (an API is down, a right is missing, or a cache is not filled). Only the leader fills caches, so
	// other replicas report `unknown` for a kind that is served.
	served := prometheus.NewDesc("espalier_project_kind_served",
		"Whether a kind that counts as use of projects is in that state (1) or not (0).", []string{"kind", "state"}, nil)
	return process.Collector(func(out chan<- prometheus.Metric) {
		for _, kind := range Kinds() {
			now := finding(kind).State
			for _, state := range []State{Served, Absent, Unknown} {
				value := 0.0
				if state == now {
					value = 1
				}
				out <- prometheus.MustNewConstMetric(served, prometheus.GaugeValue, value, string(kind), string(state))
			}
		}
	}, served)
}
