package extensionaccess

import "github.com/prometheus/client_golang/prometheus"

// Metrics are the metrics of the controller.
type Metrics struct {
	failures *prometheus.CounterVec
}

// NewMetrics registers the metrics. ClusterRoles are counted at each scrape, from the outcomes, so that each role counts once.
func NewMetrics(registry prometheus.Registerer, outcomes *Outcomes) *Metrics {
	m := &Metrics{failures: prometheus.NewCounterVec(prometheus.CounterOpts{
		Name: "espalier_project_extension_binding_failures_total", Help: "Attempts to bind a labelled ClusterRole that failed, by reason.",
	}, []string{"reason"})}
	for _, each := range failureReasons() {
		m.failures.WithLabelValues(each)
	}
	registry.MustRegister(m.failures, newGauge(outcomes, "bound", func(o outcome) bool { return o.bound }),
		newGauge(outcomes, "failed", func(o outcome) bool { return o.reason != "" }))
	return m
}

// newGauge returns the gauge of the ClusterRoles in a state.
func newGauge(outcomes *Outcomes, state string, has func(outcome) bool) prometheus.Collector {
	return prometheus.NewGaugeFunc(prometheus.GaugeOpts{
		Name:        "espalier_project_extension_bindings",
		Help:        "Labelled ClusterRoles by whether their binding to ServiceAccounts of extensions is as it should be.",
		ConstLabels: prometheus.Labels{"state": state},
	}, func() float64 { return float64(outcomes.count(has)) })
}

func (m *Metrics) failed(reason string) { m.failures.WithLabelValues(reason).Inc() }
