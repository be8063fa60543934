package lifecycle

import (
	"context"
	"testing"

	. "github.com/onsi/gomega"
	"github.com/prometheus/client_golang/prometheus"
	"sigs.k8s.io/controller-runtime/pkg/client"

	corev1beta1 "github.com/espalier-dev/espalier/api/core/v1beta1"
)

// cached is a fake cache of Projects.
type cached struct {
	client.Reader
	items []corev1beta1.Project
}

func (c cached) List(_ context.Context, list client.ObjectList, _ ...client.ListOption) error {
	if found, ok := list.(*corev1beta1.ProjectList); ok {
		found.Items = c.items
	}
	return nil
}

func inPhase(phase corev1beta1.ProjectPhase) corev1beta1.Project {
	return corev1beta1.Project{Status: corev1beta1.ProjectStatus{Phase: phase}}
}

func TestMetrics(t *testing.T) {
	g := NewWithT(t)
	registry := prometheus.NewRegistry()
	failures := RegisterMetrics(registry, cached{items: []corev1beta1.Project{inPhase("Ready"), inPhase(""), inPhase("unheard of")}})
	failures.WithLabelValues("roles").Inc()
	families, err := registry.Gather()
	g.Expect(err).NotTo(HaveOccurred())
	found := map[string]map[string]float64{}
	for _, family := range families {
		found[family.GetName()] = map[string]float64{}
		for _, each := range family.GetMetric() {
			found[family.GetName()][each.GetLabel()[0].GetValue()] = each.GetGauge().GetValue() + each.GetCounter().GetValue()
		}
	}
	g.Expect(found).To(Equal(map[string]map[string]float64{
		"espalier_project_projects": {"None": 2, "Pending": 0, "Ready": 1, "Failed": 0, "Terminating": 0},
		"espalier_project_reconcile_failures_total": {
			"finalizer": 0, "phase": 0, "namespace": 0, "quota": 0, "roles": 1, "extension-roles": 0, "release": 0,
		},
	}))
}
