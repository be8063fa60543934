package stale

import (
	"context"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"sigs.k8s.io/controller-runtime/pkg/client"

	corev1beta1 "github.com/espalier-dev/espalier/api/core/v1beta1"
)

// countTimeout limits one count. A read from the cache takes this long only if the cache is not filled yet.
const countTimeout = time.Second

// registerMetrics registers the metrics. Those about Projects are computed from the cache at each scrape.
func (r *Reconciler) registerMetrics() {
	r.wouldDelete = prometheus.NewCounter(prometheus.CounterOpts{
		Name: "espalier_project_would_delete_total",
		Help: "Projects that would have been deleted, were that not only rehearsed.",
	})
	r.Registry.MustRegister(r.wouldDelete,
		prometheus.NewGaugeFunc(prometheus.GaugeOpts{
			Name: "espalier_project_undecided",
			Help: "Projects of which it is unknown whether they are used.",
		}, func() float64 { return float64(len(r.memory.undecided())) }),
		prometheus.CollectorFunc(r.collectStale))
}

// collectStale reports nothing before the cache is filled, and no date if no project has one.
func (r *Reconciler) collectStale(out chan<- prometheus.Metric) {
	ctx, cancel := context.WithTimeout(context.Background(), countTimeout)
	defer cancel()
	projects := &corev1beta1.ProjectList{}
	if r.Client.List(ctx, projects, client.UnsafeDisableDeepCopy) != nil {
		return
	}
	stale, first := 0, time.Time{}
	for i := range projects.Items {
		status := &projects.Items[i].Status
		if status.StaleSinceTimestamp == nil || projects.Items[i].DeletionTimestamp != nil {
			continue
		}
		stale++
		if date := status.StaleAutoDeleteTimestamp; date != nil && (first.IsZero() || date.Time.Before(first)) {
			first = date.Time
		}
	}
	gauge := func(name, help string, value float64) {
		out <- prometheus.MustNewConstMetric(prometheus.NewDesc(name, help, nil, nil), prometheus.GaugeValue, value)
	}
	gauge("espalier_project_stale", "Projects that are marked as stale.", float64(stale))
	if !first.IsZero() {
		gauge("espalier_project_days_to_deletion", "Days until the first of the stale projects that have a date for it may be deleted.",
			first.Sub(r.Clock.Now()).Hours()/24)
	}
}
