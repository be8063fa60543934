package garbagecollector

import "github.com/prometheus/client_golang/prometheus"

// Metrics of the garbage collector.
type Metrics struct {
	collected *prometheus.CounterVec
	last      *prometheus.GaugeVec
	// success has no labels; it is a vector so that it is absent, and not 0, before the first success.
	success *prometheus.GaugeVec
}

// NewMetrics registers the metrics.
func NewMetrics(registry prometheus.Registerer) *Metrics {
	m := &Metrics{
		collected: prometheus.NewCounterVec(prometheus.CounterOpts{
			Name: "espalier_managedresource_garbage_collected_total", Help: "ConfigMaps and Secrets that the garbage collector has deleted.",
		}, []string{"kind"}),
		// The figure includes the objects that the garbage collector deletes in the same run, so the figure falls with the next run. The three
		// metrics of the garbage collector exist only where the garbage collector is enabled.
		last: prometheus.NewGaugeVec(prometheus.GaugeOpts{
			Name: "espalier_managedresource_garbage_found", Help: "ConfigMaps and Secrets that the last look of the garbage collector found to " +
				"be unused.",
		}, []string{"kind"}),
		// Absent before the first success.
		success: prometheus.NewGaugeVec(prometheus.GaugeOpts{
			Name: "espalier_managedresource_garbage_collection_last_success_timestamp_seconds", Help: "When the garbage collector last did all " +
				"that it had to do, in seconds since 1970.",
		}, nil),
	}
	for kind := range collectables() {
		m.collected.WithLabelValues(kind)
		m.last.WithLabelValues(kind)
	}
	registry.MustRegister(m.collected, m.last, m.success)
	return m
}
