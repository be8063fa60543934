package extensionaccess

import (
	"fmt"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/espalier-dev/espalier/internal/excerpt"
	"github.com/espalier-dev/espalier/internal/project/byname"
)

// outcome is the result for a labelled ClusterRole: it is bound, or there is a reason why not. The zero value stands for a ClusterRole that
// does not have the label any more.
type outcome struct {
	bound        bool
	reason, note string
}

// failed returns the outcome for a ClusterRole that is not bound. The format is that of the sentence that says why.
func failed(reason, format string, args ...any) outcome {
	return outcome{reason: reason, note: excerpt.Of("Cannot bind the role: "+fmt.Sprintf(format, args...), maxNote)}
}

// Metrics are the metrics of the controller. They have the last outcome for each labelled ClusterRole, so that they count each role once,
// and an Event is created only when the failure has changed. After a restart, lasting failures are reported once more.
type Metrics struct {
	last     byname.Map[outcome]
	failures *prometheus.CounterVec
}

// NewMetrics registers the metrics.
func NewMetrics(registry prometheus.Registerer) *Metrics {
	m := &Metrics{failures: prometheus.NewCounterVec(prometheus.CounterOpts{
		Name: "espalier_project_extension_binding_failures_total", Help: "Attempts to bind a labelled ClusterRole that failed, by reason.",
	}, []string{"reason"})}
	for _, each := range failureReasons() {
		m.failures.WithLabelValues(each)
	}
	registry.MustRegister(m.failures, m.count("bound", func(o outcome) bool { return o.bound }),
		m.count("failed", func(o outcome) bool { return o.reason != "" }))
	return m
}

// count returns the number of ClusterRoles in a state.
func (m *Metrics) count(state string, has func(outcome) bool) prometheus.Collector {
	return prometheus.NewGaugeFunc(prometheus.GaugeOpts{
		Name:        "espalier_project_extension_bindings",
		Help:        "Labelled ClusterRoles by whether their binding to ServiceAccounts of extensions is as it should be.",
		ConstLabels: prometheus.Labels{"state": state},
	}, func() float64 { return float64(len(m.last.Names(has))) })
}

// set stores an outcome, and returns true if it differs from the previous one.
func (m *Metrics) set(name string, now outcome) (changed bool) {
	if now.reason != "" {
		m.failures.WithLabelValues(now.reason).Inc()
	}
	m.last.Change(name, func(last *outcome) { changed, *last = *last != now, now })
	return changed
}
