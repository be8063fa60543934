package lifecycle

import (
	"context"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"sigs.k8s.io/controller-runtime/pkg/client"

	corev1beta1 "github.com/espalier-dev/espalier/api/core/v1beta1"
	"github.com/espalier-dev/espalier/internal/project/collector"
)

// scrapePatience is the longest time that a scrape waits for the cache.
const scrapePatience = 2 * time.Second

// noPhase is the label of Projects that the controller has not processed yet.
const noPhase = "None"

// Metrics are the metrics of the main loop.
type Metrics struct {
	failures *prometheus.CounterVec
}

// NewMetrics registers the metrics. Projects are counted at each scrape, from the cache.
func NewMetrics(registry prometheus.Registerer, cached client.Reader) *Metrics {
	m := &Metrics{failures: prometheus.NewCounterVec(prometheus.CounterOpts{
		Name: "espalier_project_reconcile_failures_total", Help: "Failed attempts to bring a Project forward, by what failed; conflicts aside.",
	}, []string{"step"})}
	for _, each := range steps() {
		m.failures.WithLabelValues(string(each))
	}
	description := prometheus.NewDesc("espalier_project_projects", "Projects by phase; None for those that the controller has not seen yet.",
		[]string{"phase"}, nil)
	registry.MustRegister(m.failures, collector.New(func(metrics chan<- prometheus.Metric) {
		for phase, count := range countByPhase(cached) {
			metrics <- prometheus.MustNewConstMetric(description, prometheus.GaugeValue, count, phase)
		}
	}, description))
	return m
}

func (m *Metrics) failed(s step) { m.failures.WithLabelValues(string(s)).Inc() }

// countByPhase counts the Projects in the cache. It returns nothing before the cache is filled.
func countByPhase(cached client.Reader) map[string]float64 {
	ctx, cancel := context.WithTimeout(context.Background(), scrapePatience)
	defer cancel()
	list := &corev1beta1.ProjectList{}
	if cached.List(ctx, list, client.UnsafeDisableDeepCopy) != nil {
		return nil
	}
	counts := map[string]float64{
		noPhase: 0, string(corev1beta1.ProjectPending): 0, string(corev1beta1.ProjectReady): 0,
		string(corev1beta1.ProjectFailed): 0, string(corev1beta1.ProjectTerminating): 0,
	}
	for i := range list.Items {
		phase := string(list.Items[i].Status.Phase)
		if _, known := counts[phase]; !known {
			phase = noPhase
		}
		counts[phase]++
	}
	return counts
}
