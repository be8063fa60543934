package criticalcomponents

import (
	"time"

	"github.com/prometheus/client_golang/prometheus"
)

// Metrics are the metrics of the controller.
type Metrics struct {
	removed prometheus.Counter
	waited  prometheus.Histogram
	held    *prometheus.GaugeVec
}

// NewMetrics registers the metrics.
func NewMetrics(registry prometheus.Registerer) *Metrics {
	m := &Metrics{
		removed: prometheus.NewCounter(prometheus.CounterOpts{
			Name: "espalier_node_taints_removed_total", Help: "Nodes whose taint was removed because their critical components were ready.",
		}),
		waited: prometheus.NewHistogram(prometheus.HistogramOpts{
			Name:    "espalier_node_taint_seconds",
			Help:    "Time from the creation of a Node, or from the moment it was seen to get the taint again, to the removal of its taint.",
			Buckets: []float64{1, 2, 5, 10, 20, 30, 60, 120, 300, 600, 1800, 3600},
		}),
		held: prometheus.NewGaugeVec(prometheus.GaugeOpts{
			Name: "espalier_node_held_back", Help: "Nodes that have the taint, by what they wait for.",
		}, []string{"cause"}),
	}
	for _, each := range causes() {
		m.held.WithLabelValues(string(each))
	}
	registry.MustRegister(m.removed, m.waited, m.held)
	return m
}

func (m *Metrics) taintRemoved(after time.Duration) {
	m.removed.Inc()
	m.waited.Observe(max(after, 0).Seconds())
}

// moved counts a Node whose cause has changed; "" stands for none.
func (m *Metrics) moved(from, to cause) {
	if from == to {
		return
	}
	if from != "" {
		m.held.WithLabelValues(string(from)).Dec()
	}
	if to != "" {
		m.held.WithLabelValues(string(to)).Inc()
	}
}
