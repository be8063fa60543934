package stale

import (
	"time"

	"github.com/prometheus/client_golang/prometheus"

	corev1beta1 "github.com/espalier-dev/espalier/api/core/v1beta1"
	"github.com/espalier-dev/espalier/internal/project/collector"
)

// registerMetrics registers the metrics. Those about Projects are computed from the cache at each scrape.
func (r *Reconciler) registerMetrics() {
	// With `espalier.project.staleDeletion: DryRun`.
	r.wouldDelete = prometheus.NewCounter(prometheus.CounterOpts{
		Name: "espalier_project_would_delete_total",
		Help: "Projects that would have been deleted, were that not only rehearsed.",
	})
	r.Registry.MustRegister(r.wouldDelete,
		// They stay as they are. If it stays above 0, see the Event `StaleChecksSuspended`.
		prometheus.NewGaugeFunc(prometheus.GaugeOpts{
			Name: "espalier_project_undecided",
			Help: "Projects of which it is unknown whether they are used.",
		}, func() float64 { return float64(len(r.judged.undecided())) }),
		r.staleMetrics())
}

// staleMetrics returns the metrics about stale Projects. No metric is present before the cache is filled. The metric of the days until the
// deletion is also missing if no stale Project has a date.
func (r *Reconciler) staleMetrics() prometheus.Collector {
	// Counted when metrics are read, from the cache; absent while the cache is not filled.
	marked := prometheus.NewDesc("espalier_project_stale", "Projects that are marked as stale.", nil, nil)
	// Not positive: the project is deleted at its next check, unless deletion is off or rehearsed. Absent if no project has a date.
	remaining := prometheus.NewDesc("espalier_project_days_to_deletion",
		"Days until the first of the stale projects that have a date for it may be deleted.", nil, nil)
	return collector.New(r.Client, func(projects []corev1beta1.Project, out chan<- prometheus.Metric) {
		count, first := countStale(projects)
		out <- prometheus.MustNewConstMetric(marked, prometheus.GaugeValue, float64(count))
		if !first.IsZero() {
			days := first.Sub(r.Clock.Now()).Hours() / 24
			out <- prometheus.MustNewConstMetric(remaining, prometheus.GaugeValue, days) //nolint:promlinter // the name stays as published
		}
	}, marked, remaining)
}

// countStale counts the stale Projects, and returns the first date of their deletion; zero if none has a date.
func countStale(projects []corev1beta1.Project) (count int, first time.Time) {
	for i := range projects {
		status := &projects[i].Status
		if status.StaleSinceTimestamp == nil || projects[i].DeletionTimestamp != nil {
			continue
		}
		count++
		if date := status.StaleAutoDeleteTimestamp; date != nil && (first.IsZero() || date.Time.Before(first)) {
			first = date.Time
		}
	}
	return count, first
}
