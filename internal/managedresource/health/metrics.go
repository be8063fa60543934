package health

import (
	"context"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"sigs.k8s.io/controller-runtime/pkg/client"

	corev1beta1 "github.com/espalier-dev/espalier/api/core/v1beta1"
	resourcesv1alpha1 "github.com/espalier-dev/espalier/api/resources/v1alpha1"
	"github.com/espalier-dev/espalier/internal/apply/merge"
	"github.com/espalier-dev/espalier/internal/process"
)

// NewMetrics registers the metrics, and returns the metric of the latency. At each scrape, it counts the ManagedResources in the cache
// from which the reader sets reads, if the function responsible returns true for them.
func NewMetrics(
	registry prometheus.Registerer, sets client.Reader, responsible func(*resourcesv1alpha1.ManagedResource) bool,
) prometheus.Histogram {
	// Of `ResourcesHealthy` and `ResourcesProgressing`.
	latency := prometheus.NewHistogram(prometheus.HistogramOpts{
		Name:    "espalier_managedresource_condition_latency_seconds",
		Help:    "Time from the moment an event about an object was seen to the status write that followed from it.",
		Buckets: prometheus.ExponentialBuckets(0.001, 2, 14),
	})
	// Counted when metrics are read, from the cache; every replica may serve it, so take the largest count instead of adding up.
	counts := prometheus.NewDesc("espalier_managedresource_sets", "ManagedResources by the status of their conditions.",
		[]string{"condition", "status"}, nil)
	registry.MustRegister(latency, process.Collector(func(metrics chan<- prometheus.Metric) {
		ctx, cancel := context.WithTimeout(context.Background(), scrapePatience)
		defer cancel()
		list := &resourcesv1alpha1.ManagedResourceList{}
		if err := sets.List(ctx, list, client.UnsafeDisableDeepCopy); err != nil {
			return
		}
		for labels, count := range tally(list.Items, responsible) {
			metrics <- prometheus.MustNewConstMetric(counts, prometheus.GaugeValue, float64(count), labels.condition, labels.status)
		}
	}, counts))
	return latency
}

// scrapePatience is how long a scrape waits for a cache that has not synced. After that, it sends no counts.
const scrapePatience = time.Second

type tallied struct{ condition, status string }

// tally counts the sets for which responsible returns true, for each condition and each of its possible statuses. If a set has no such
// condition, its status counts as unknown. But if the set must not be applied for now (see held), the missing condition does not count,
// because the set was never judged.
func tally(sets []resourcesv1alpha1.ManagedResource, responsible func(*resourcesv1alpha1.ManagedResource) bool) map[tallied]int {
	conditions := map[corev1beta1.ConditionType]string{
		resourcesv1alpha1.ResourcesApplied: "applied", resourcesv1alpha1.ResourcesHealthy: "healthy",
		resourcesv1alpha1.ResourcesProgressing: "progressing",
	}
	statuses := map[corev1beta1.ConditionStatus]string{
		corev1beta1.ConditionTrue: "true", corev1beta1.ConditionFalse: "false", corev1beta1.ConditionUnknown: "unknown",
		corev1beta1.ConditionProgressing: "progressing",
	}
	counts := map[tallied]int{}
	for _, condition := range conditions {
		for _, status := range statuses {
			counts[tallied{condition, status}] = 0
		}
	}
	for i := range sets {
		if !responsible(&sets[i]) {
			continue
		}
		for kind, name := range conditions {
			known := corev1beta1.GetCondition(sets[i].Status.Conditions, kind)
			if known == nil && held(&sets[i]) {
				continue // this set must not be judged yet
			}
			status := "unknown"
			if known != nil && statuses[known.Status] != "" {
				status = statuses[known.Status]
			}
			counts[tallied{name, status}]++
		}
	}
	return counts
}

// held reports whether a set must not be applied for now: its annotations request only a plan, or the wait for a restore.
func held(mr *resourcesv1alpha1.ManagedResource) bool {
	only, _ := merge.AsksForPlan(mr.Annotations)
	return only || mr.Annotations[resourcesv1alpha1.GardenerOperation] == resourcesv1alpha1.OperationWaitForState
}
