package stale

import (
	"context"
	"fmt"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"sigs.k8s.io/controller-runtime/pkg/client"

	corev1beta1 "github.com/espalier-dev/espalier/api/core/v1beta1"
	"github.com/espalier-dev/espalier/internal/project/collector"
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
		}, func() float64 { return float64(len(r.judged.undecided())) }),
		r.staleMetrics())
}

// staleMetrics returns the metrics about stale Projects. They are missing before the cache is filled; the date is also missing if no
// Project has one.
func (r *Reconciler) staleMetrics() prometheus.Collector {
	marked := prometheus.NewDesc("espalier_project_stale", "Projects that are marked as stale.", nil, nil)
	remaining := prometheus.NewDesc("espalier_project_days_to_deletion",
		"Days until the first of the stale projects that have a date for it may be deleted.", nil, nil)
	return collector.New(func(out chan<- prometheus.Metric) {
		count, first, err := r.countStale()
		if err != nil {
			return
		}
		out <- prometheus.MustNewConstMetric(marked, prometheus.GaugeValue, float64(count))
		if !first.IsZero() {
			days := first.Sub(r.Clock.Now()).Hours() / 24
			out <- prometheus.MustNewConstMetric(remaining, prometheus.GaugeValue, days) //nolint:promlinter // the name stays as published
		}
	}, marked, remaining)
}

// countStale counts the stale Projects in the cache, and returns the first date of their deletion; zero if none has a date. It returns an
// error before the cache is filled.
func (r *Reconciler) countStale() (count int, first time.Time, err error) {
	ctx, cancel := context.WithTimeout(context.Background(), countTimeout)
	defer cancel()
	projects := &corev1beta1.ProjectList{}
	if err := r.Client.List(ctx, projects, client.UnsafeDisableDeepCopy); err != nil {
		return 0, time.Time{}, fmt.Errorf("list Projects: %w", err)
	}
	for i := range projects.Items {
		status := &projects.Items[i].Status
		if status.StaleSinceTimestamp == nil || projects.Items[i].DeletionTimestamp != nil {
			continue
		}
		count++
		if date := status.StaleAutoDeleteTimestamp; date != nil && (first.IsZero() || date.Time.Before(first)) {
			first = date.Time
		}
	}
	return count, first, nil
}
