package lifecycle

import (
	"github.com/prometheus/client_golang/prometheus"
	"sigs.k8s.io/controller-runtime/pkg/client"

	corev1beta1 "github.com/espalier-dev/espalier/api/core/v1beta1"
	"github.com/espalier-dev/espalier/internal/project/collector"
)

// noPhase is the label of Projects that the controller has not processed yet.
const noPhase = "None"

// RegisterMetrics registers the metrics of the main loop, and returns the counter of failures by step. Projects are counted at each scrape,
// from the cache.
func RegisterMetrics(registry prometheus.Registerer, cached client.Reader) *prometheus.CounterVec {
	// Steps are `finalizer`, `phase`, `namespace`, `quota`, `roles`, `extension-roles` and `release`. A failed reconciliation is repeated,
	// after pauses that grow.
	failures := prometheus.NewCounterVec(prometheus.CounterOpts{
		Name: "espalier_project_reconcile_failures_total", Help: "Failed reconciliations of Projects, by step; conflicts aside.",
	}, []string{"step"})
	for _, each := range steps() {
		failures.WithLabelValues(string(each))
	}
	// Phases are `Pending`, `Ready`, `Failed`, `Terminating` and `None`. Projects are counted when metrics are read, from the cache. The
	// metric is absent while the cache is not filled.
	description := prometheus.NewDesc("espalier_project_projects",
		"Projects by phase; None for Projects that the controller has not seen yet.",
		[]string{"phase"}, nil)
	registry.MustRegister(failures, collector.New(cached, func(projects []corev1beta1.Project, metrics chan<- prometheus.Metric) {
		for phase, count := range countByPhase(projects) {
			metrics <- prometheus.MustNewConstMetric(description, prometheus.GaugeValue, count, phase)
		}
	}, description))
	return failures
}

func countByPhase(projects []corev1beta1.Project) map[string]float64 {
	counts := map[string]float64{
		noPhase: 0, string(corev1beta1.ProjectPending): 0, string(corev1beta1.ProjectReady): 0,
		string(corev1beta1.ProjectFailed): 0, string(corev1beta1.ProjectTerminating): 0,
	}
	for i := range projects {
		phase := string(projects[i].Status.Phase)
		if _, known := counts[phase]; !known {
			phase = noPhase
		}
		counts[phase]++
	}
	return counts
}
