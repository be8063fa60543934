package lifecycle

import (
	"context"
	"os"
	"path/filepath"
	"regexp"
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

// gatherMetrics returns the values, by the value of the label, and the help texts of the metrics for three Projects.
func gatherMetrics(t *testing.T) (values map[string]map[string]float64, help map[string]string) {
	t.Helper()
	registry := prometheus.NewRegistry()
	failures := RegisterMetrics(registry, cached{items: []corev1beta1.Project{inPhase("Ready"), inPhase(""), inPhase("unheard of")}})
	failures.WithLabelValues("roles").Inc()
	families, err := registry.Gather()
	NewWithT(t).Expect(err).NotTo(HaveOccurred())
	values, help = map[string]map[string]float64{}, map[string]string{}
	for _, family := range families {
		help[family.GetName()], values[family.GetName()] = family.GetHelp(), map[string]float64{}
		for _, each := range family.GetMetric() {
			values[family.GetName()][each.GetLabel()[0].GetValue()] = each.GetGauge().GetValue() + each.GetCounter().GetValue()
		}
	}
	return values, help
}

func TestMetrics(t *testing.T) {
	found, _ := gatherMetrics(t)
	NewWithT(t).Expect(found).To(Equal(map[string]map[string]float64{
		"espalier_project_projects": {"None": 2, "Pending": 0, "Ready": 1, "Failed": 0, "Terminating": 0},
		"espalier_project_reconcile_failures_total": {
			"finalizer": 0, "phase": 0, "namespace": 0, "quota": 0, "roles": 1, "extension-roles": 0, "release": 0,
		},
	}))
}

func TestMetricsAreDocumented(t *testing.T) {
	g := NewWithT(t)
	content, err := os.ReadFile(filepath.FromSlash("../../../docs/reference/metrics.md"))
	g.Expect(err).NotTo(HaveOccurred())
	section := regexp.MustCompile(`(?s)## Projects\n.*?\n## `).FindString(string(content))
	documented := map[string]string{}
	for _, row := range regexp.MustCompile("(?m)^\\| `(espalier_project_\\w+)` \\| (?:gauge|counter) \\| [^|]*\\| (.*) \\|$").
		FindAllStringSubmatch(section, -1) {
		documented[row[1]] = row[2]
	}
	_, help := gatherMetrics(t)
	g.Expect(documented).To(HaveLen(len(help)))
	for name, each := range help {
		g.Expect(documented[name]).To(HavePrefix(each))
	}
}
