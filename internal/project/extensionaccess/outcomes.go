package extensionaccess

import (
	"fmt"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/espalier-dev/espalier/internal/excerpt"
	"github.com/espalier-dev/espalier/internal/project/memory"
)

// outcome is the result for a labelled ClusterRole: it is bound, or there is a reason why not. The zero value stands for a ClusterRole that
// does not have the label any more.
type outcome struct {
	bound        bool
	reason, note string
}

// failed returns the outcome for a ClusterRole that is not bound. format and args are the arguments of fmt.Sprintf for the reason
// in the note.
func failed(reason, format string, args ...any) outcome {
	return outcome{reason: reason, note: excerpt.Of("Cannot bind the role: "+fmt.Sprintf(format, args...), maxNote)}
}

// Outcomes stores the last outcome for each labelled ClusterRole, and counts the failures. After a restart, lasting failures are reported
// once more.
type Outcomes struct {
	last     memory.ByName[outcome]
	failures *prometheus.CounterVec
}

// NewOutcomes registers the metrics. ClusterRoles are counted at each scrape, so that each role counts once.
func NewOutcomes(registry prometheus.Registerer) *Outcomes {
	// Reasons are the reasons of the Events on the ClusterRole: `InvalidServiceAccountSelector`, `ForeignClusterRoleBinding` and
	// `ClusterRoleBindingFailed`. After the first two, the controller tries again only when something changes. After the last one, it tries
	// again with growing pauses.
	o := &Outcomes{failures: prometheus.NewCounterVec(prometheus.CounterOpts{
		Name: "espalier_project_extension_binding_failures_total", Help: "Attempts to bind a labelled ClusterRole that failed, by reason.",
	}, []string{"reason"})}
	for _, each := range failureReasons() {
		o.failures.WithLabelValues(each)
	}
	registry.MustRegister(o.failures, o.gauge("bound", func(last outcome) bool { return last.bound }),
		o.gauge("failed", func(last outcome) bool { return last.reason != "" }))
	return o
}

// gauge returns the gauge of the ClusterRoles in a state.
func (o *Outcomes) gauge(state string, has func(outcome) bool) prometheus.Collector {
	// States are `bound` and `failed`.
	return prometheus.NewGaugeFunc(prometheus.GaugeOpts{
		Name:        "espalier_project_extension_bindings",
		Help:        "Labelled ClusterRoles by whether their binding to ServiceAccounts of extensions is as it should be.",
		ConstLabels: prometheus.Labels{"state": state},
	}, func() float64 { return float64(len(o.last.Names(has))) })
}

// record stores an outcome, and reports whether an Event must be created: the outcome is a failure and differs from the previous one.
func (o *Outcomes) record(name string, now outcome) (needsEvent bool) {
	if now.reason != "" {
		o.failures.WithLabelValues(now.reason).Inc()
	}
	o.last.Change(name, func(last *outcome) { needsEvent, *last = *last != now && now.reason != "", now })
	return needsEvent
}
