package controller

import (
	"sync"

	"github.com/prometheus/client_golang/prometheus"
	"k8s.io/apimachinery/pkg/types"
)

// Metrics are the metrics of the controller.
type Metrics struct {
	writes *prometheus.CounterVec
	// pending is nil unless the controller only observes.
	pending *prometheus.GaugeVec

	mu sync.Mutex
	// differences are the contributions to pending, by Service and action.
	differences map[types.NamespacedName]map[string]int
}

// NewMetrics registers the metrics. The one about pending changes exists only if the controller only observes.
func NewMetrics(registry prometheus.Registerer, reported *Reported, observeOnly bool) *Metrics {
	m := &Metrics{
		// Actions are `create`, `update` and `delete`.
		writes: prometheus.NewCounterVec(prometheus.CounterOpts{
			Name: "espalier_networkpolicy_writes_total", Help: "NetworkPolicies that were created, updated and deleted.",
		}, []string{"action"}),
		differences: map[types.NamespacedName]map[string]int{},
	}
	registry.MustRegister(m.writes)
	for _, reason := range []string{ReasonInvalidAnnotation, ReasonNameTaken, ReasonFailed, ReasonNamespaceMissing, ReasonRepairPaused} {
		// Reasons are `InvalidAnnotation`, `PolicyNameTaken`, `IngressControllerNamespaceMissing`, `PolicyRepairPaused` and
		// `PolicyChangeFailed`.
		registry.MustRegister(prometheus.NewGaugeFunc(prometheus.GaugeOpts{
			Name:        "espalier_networkpolicy_services_at_fault",
			Help:        "Services whose policies cannot be kept as they ask for it, by the reason of the Event that tells of it.",
			ConstLabels: prometheus.Labels{"reason": reason},
		}, func() float64 { return float64(reported.services(reason)) }))
	}
	if observeOnly {
		// Only with `observeOnly`.
		m.pending = prometheus.NewGaugeVec(prometheus.GaugeOpts{
			Name: "espalier_networkpolicy_pending_changes",
			Help: "NetworkPolicies that would be created, updated and deleted if the controller did not only observe.",
		}, []string{"action"})
		registry.MustRegister(m.pending)
	}
	for _, action := range []string{actionCreate, actionUpdate, actionDelete} {
		m.writes.WithLabelValues(action)
		if observeOnly {
			m.pending.WithLabelValues(action)
		}
	}
	return m
}

// Wrote counts writes of policies.
func (m *Metrics) Wrote(action string, policies int) {
	m.writes.WithLabelValues(action).Add(float64(policies))
}

// differ replaces the contribution of one Service to the pending changes.
func (m *Metrics) differ(service types.NamespacedName, counts map[string]int) {
	m.mu.Lock()
	defer m.mu.Unlock()
	before := m.differences[service]
	for _, action := range []string{actionCreate, actionUpdate, actionDelete} {
		m.pending.WithLabelValues(action).Add(float64(counts[action] - before[action]))
	}
	if len(counts) == 0 {
		delete(m.differences, service)
		return
	}
	m.differences[service] = counts
}
