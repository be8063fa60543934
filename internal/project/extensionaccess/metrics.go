package extensionaccess

import "github.com/prometheus/client_golang/prometheus"

// Values of the label state.
const (
	stateBound  = "bound"
	stateFailed = "failed"
)

// Metrics are the metrics of the controller.
type Metrics struct {
	bindings *prometheus.GaugeVec
	failures *prometheus.CounterVec
}

// NewMetrics registers the metrics.
func NewMetrics(registry prometheus.Registerer) *Metrics {
	m := &Metrics{
		bindings: prometheus.NewGaugeVec(prometheus.GaugeOpts{
			Name: "espalier_project_extension_bindings",
			Help: "Labelled ClusterRoles by whether their binding to ServiceAccounts of extensions is as it should be.",
		}, []string{"state"}),
		failures: prometheus.NewCounterVec(prometheus.CounterOpts{
			Name: "espalier_project_extension_binding_failures_total", Help: "Attempts to bind a labelled ClusterRole that failed, by reason.",
		}, []string{"reason"}),
	}
	for _, each := range []string{stateBound, stateFailed} {
		m.bindings.WithLabelValues(each)
	}
	for _, each := range failureReasons() {
		m.failures.WithLabelValues(each)
	}
	registry.MustRegister(m.bindings, m.failures)
	return m
}

// moved counts a ClusterRole whose state has changed; "" stands for one without the label.
func (m *Metrics) moved(from, to string) {
	if from == to {
		return
	}
	if from != "" {
		m.bindings.WithLabelValues(from).Dec()
	}
	if to != "" {
		m.bindings.WithLabelValues(to).Inc()
	}
}
