package components_test

import (
	"slices"
	"strings"
	"testing"

	. "github.com/onsi/gomega"
	"sigs.k8s.io/controller-runtime/pkg/client"

	operatorv1alpha1 "github.com/espalier-dev/espalier/api/operator/v1alpha1"
	"github.com/espalier-dev/espalier/internal/garden/component"
	"github.com/espalier-dev/espalier/internal/garden/component/prometheus"
	"github.com/espalier-dev/espalier/internal/garden/components"
	"github.com/espalier-dev/espalier/internal/garden/values"
)

// workloadOf is the kind of the workload that an operator of another project makes of a custom resource of a row; empty: none.
var workloadOf = map[string]string{
	"Alertmanager.monitoring.coreos.com":         "StatefulSet",
	"Prometheus.monitoring.coreos.com":           "StatefulSet",
	"PrometheusRule.monitoring.coreos.com":       "",
	"ScrapeConfig.monitoring.coreos.com":         "",
	"ServiceMonitor.monitoring.coreos.com":       "",
	"FluentBit.fluentbit.fluent.io":              "DaemonSet",
	"ClusterFilter.fluentbit.fluent.io":          "",
	"ClusterFluentBitConfig.fluentbit.fluent.io": "",
	"ClusterInput.fluentbit.fluent.io":           "",
	"ClusterOutput.fluentbit.fluent.io":          "",
	"ClusterParser.fluentbit.fluent.io":          "",
	"OpenTelemetryCollector.opentelemetry.io":    "Deployment",
	"VLSingle.operator.victoriametrics.com":      "Deployment",
	"PersesDashboard.perses.dev":                 "",
}

// The resource manager does not judge the workloads that other operators make of custom resources, so rows name these workloads.
func TestRowsNameTheWorkloadsOfTheirCustomResources(t *testing.T) {
	eachGarden(t, func(t *testing.T, garden *operatorv1alpha1.Garden, operator values.Operator) {
		t.Helper()
		g := NewWithT(t)
		operator.Image = func(binary string) string { return binary }
		operator.OpenTelemetryCollector, operator.VictoriaLogs, operator.Perses = true, true, true
		v, err := values.New(garden, operator)
		g.Expect(err).NotTo(HaveOccurred())
		made := 0
		for _, row := range components.All() {
			if row.Condition != operatorv1alpha1.ObservabilityComponentsHealthy || row.Unwanted(v) != "" {
				continue
			}
			var named []string
			if row.Workloads != nil {
				for _, each := range row.Workloads(v) {
					named = append(named, each.Kind)
				}
			}
			for _, each := range custom(g, row, v) {
				kind, known := workloadOf[each]
				g.Expect(known).To(BeTrue(), "%s has a %s: does an operator make a workload of it?", row.Name, each)
				if kind != "" {
					made++
					g.Expect(slices.Contains(named, kind)).To(BeTrue(), "%s does not name the %s of its %s", row.Name, kind, each)
				}
			}
		}
		g.Expect(made).To(BeNumerically(">", 4))
	})
}

// custom returns the kinds of the custom resources of a row.
func custom(g Gomega, row component.Component, v values.Values) []string {
	built, err := use(row, v)
	g.Expect(err).NotTo(HaveOccurred(), row.Name)
	objects := slices.Concat(append(built.Sets, built.Direct)...)
	if row.Name == component.PrometheusGarden { // a step returns its objects
		all, err := prometheus.Objects(v, prometheus.Credentials{}, prometheus.Seeds{})
		g.Expect(err).NotTo(HaveOccurred())
		objects = append(objects, all.Set...)
	}
	var kinds []string
	for _, each := range objects {
		if kind := kindOf(each); !slices.Contains(kinds, kind) && isCustom(each) {
			kinds = append(kinds, kind)
		}
	}
	return kinds
}

func kindOf(o client.Object) string {
	kind := o.GetObjectKind().GroupVersionKind()
	return kind.Kind + "." + kind.Group
}

// isCustom reports whether the API group of an object belongs neither to Kubernetes nor to its projects.
func isCustom(o client.Object) bool {
	group := o.GetObjectKind().GroupVersionKind().Group
	return strings.Contains(group, ".") && !strings.HasSuffix(group, ".k8s.io")
}
