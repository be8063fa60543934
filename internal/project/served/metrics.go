package served

import "github.com/prometheus/client_golang/prometheus"

// metrics read the findings at each scrape: these may change at any time, and from more than one goroutine.
type metrics struct {
	finding func(Kind) Finding
	served  *prometheus.Desc
}

var _ prometheus.Collector = &metrics{}

func newMetrics(finding func(Kind) Finding) *metrics {
	return &metrics{finding: finding, served: prometheus.NewDesc("espalier_project_kind_served",
		"Whether a kind that counts as use of projects is in that state (1) or not (0).", []string{"kind", "state"}, nil)}
}

// Describe implements prometheus.Collector.
func (m *metrics) Describe(out chan<- *prometheus.Desc) { out <- m.served }

// Collect implements prometheus.Collector.
func (m *metrics) Collect(out chan<- prometheus.Metric) {
	for _, kind := range Kinds() {
		now := m.finding(kind).State
		for _, state := range []State{Served, Absent, Unknown} {
			value := 0.0
			if state == now {
				value = 1
			}
			out <- prometheus.MustNewConstMetric(m.served, prometheus.GaugeValue, value, string(kind), string(state))
		}
	}
}
