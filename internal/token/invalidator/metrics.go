package invalidator

import "github.com/prometheus/client_golang/prometheus"

// Metrics of the token invalidator.
type Metrics struct{ marks *prometheus.CounterVec }

// NewMetrics registers the metrics.
func NewMetrics(registry prometheus.Registerer) *Metrics {
	// Actions are `invalidate` and `restore`.
	m := &Metrics{marks: prometheus.NewCounterVec(prometheus.CounterOpts{
		Name: "espalier_token_static_marks_total", Help: "Static token Secrets marked for invalidation, and marks removed, by action.",
	}, []string{"action"})}
	for _, action := range []string{"invalidate", "restore"} {
		m.marks.WithLabelValues(action)
	}
	registry.MustRegister(m.marks)
	return m
}

func (m *Metrics) labelled(done plan) {
	if done.invalidate {
		m.marks.WithLabelValues("invalidate").Inc()
	}
	if done.restore {
		m.marks.WithLabelValues("restore").Inc()
	}
}
