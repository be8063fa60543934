package review

import (
	"time"

	"github.com/prometheus/client_golang/prometheus"
)

// Metrics measure how long handlers take, and count the outcomes.
type Metrics struct {
	duration *prometheus.HistogramVec
	outcomes *prometheus.CounterVec
}

// NewMetrics registers the metrics of all endpoints of a process.
func NewMetrics(registry prometheus.Registerer) *Metrics {
	m := &Metrics{
		duration: prometheus.NewHistogramVec(prometheus.HistogramOpts{
			Name: "espalier_webhook_request_duration_seconds", Help: "Time from the first byte of an admission request to its verdict, by handler.",
			Buckets: []float64{.0001, .0002, .0005, .001, .002, .005, .01, .025, .1, .5, 2, 10},
		}, []string{"handler"}),
		outcomes: prometheus.NewCounterVec(prometheus.CounterOpts{
			Name: "espalier_webhook_requests_total",
			Help: "Admission requests by handler and outcome: allowed, patched, skipped (nothing to change), denied, or errored.",
		}, []string{"handler", "outcome"}),
	}
	registry.MustRegister(m.duration, m.outcomes)
	return m
}

func (m *Metrics) observe(e *Endpoint, response Response, took time.Duration) {
	m.duration.WithLabelValues(e.Name).Observe(took.Seconds())
	m.outcomes.WithLabelValues(e.Name, outcome(e, response)).Inc()
}

// outcome returns the value of the label outcome.
func outcome(e *Endpoint, response Response) string {
	switch {
	case response.Failed, !response.Allowed && response.Code != 403 && response.Code != 422:
		return "errored"
	case !response.Allowed:
		return "denied"
	case len(response.Patch) > 0:
		return "patched"
	case e.Mutating:
		return "skipped"
	}
	return "allowed"
}
