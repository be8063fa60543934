package approver

import (
	"github.com/prometheus/client_golang/prometheus"

	"github.com/espalier-dev/espalier/internal/csr/rules"
)

// Metrics of the approver.
type Metrics struct {
	decisions *prometheus.CounterVec
	delays    *prometheus.CounterVec
}

// NewMetrics registers the metrics. If observed is true, the approver writes no decisions.
func NewMetrics(registry prometheus.Registerer, observed bool) *Metrics {
	m := &Metrics{
		decisions: prometheus.NewCounterVec(prometheus.CounterOpts{
			Name: "espalier_csr_decisions_total", Help: "Requests of kubelets for serving certificates that were decided.",
		}, []string{"decision", "reason"}),
		// One request may be counted several times.
		delays: prometheus.NewCounterVec(prometheus.CounterOpts{
			Name: "espalier_csr_postponed_total", Help: "Decisions that were put off, to wait for an object or because of the rate limit.",
		}, []string{"reason"}),
	}
	for _, reason := range rules.AllReasons() {
		verdict := rules.Verdict{Outcome: rules.Deny, Reason: reason}
		if reason == rules.Passed {
			verdict.Outcome = rules.Approve
		}
		m.decisions.WithLabelValues(describe(verdict, observed).decision, reason.String())
	}
	for _, reason := range []rules.Reason{rules.NodeMissing, rules.MachineCount, rules.RateLimit} {
		m.delays.WithLabelValues(reason.String())
	}
	registry.MustRegister(m.decisions, m.delays)
	return m
}

func (m *Metrics) decided(decision string, reason rules.Reason) {
	m.decisions.WithLabelValues(decision, reason.String()).Inc()
}

func (m *Metrics) postponed(reason rules.Reason) { m.delays.WithLabelValues(reason.String()).Inc() }
