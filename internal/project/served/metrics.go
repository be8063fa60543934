package served

import "github.com/prometheus/client_golang/prometheus"

type metrics struct{ served *prometheus.GaugeVec }

func newMetrics(registry prometheus.Registerer) *metrics {
	m := &metrics{served: prometheus.NewGaugeVec(prometheus.GaugeOpts{
		Name: "espalier_project_kind_served",
		Help: "Whether a kind that counts as use of projects is in that state (1) or not (0).",
	}, []string{"kind", "state"})}
	if registry != nil {
		registry.MustRegister(m.served)
	}
	return m
}

// showMetrics says of each kind in which state it is.
func (t *Tracker) showMetrics() {
	for _, kind := range Kinds() {
		now := t.Finding(kind).State
		for _, state := range []State{Served, Absent, Unknown} {
			value := 0.0
			if state == now {
				value = 1
			}
			t.metrics.served.WithLabelValues(string(kind), string(state)).Set(value)
		}
	}
}
