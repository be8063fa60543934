package opentelemetry_test

import (
	"testing"

	. "github.com/onsi/gomega"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/espalier-dev/espalier/internal/garden/component/opentelemetry"
	"github.com/espalier-dev/espalier/internal/garden/goldentest"
	"github.com/espalier-dev/espalier/internal/garden/values"
)

func TestObjectsAreAsInTheGoldenFiles(t *testing.T) {
	objects := func(of func(values.Values) ([]client.Object, error), changes ...func(*values.Values)) []client.Object {
		all, err := of(goldentest.Values(t, func(*values.Values) any { return &struct{}{} }, "{}", changes...))
		NewWithT(t).Expect(err).NotTo(HaveOccurred())
		return all
	}
	victoria := func(v *values.Values) { v.OpenTelemetryCollector, v.VictoriaLogs = true, true }
	goldentest.Compare(t, "", map[string][]client.Object{
		"operator":           objects(opentelemetry.OperatorObjects),
		"vali":               objects(opentelemetry.CollectorObjects),
		"both":               objects(opentelemetry.CollectorObjects, victoria),
		"victoria-logs-only": objects(opentelemetry.CollectorObjects, victoria, func(v *values.Values) { v.RemoveVali = true }),
	})
}

func TestCollectorsWithoutAStoreAreNotDeployed(t *testing.T) {
	g := NewWithT(t)
	of := func(o values.Operator) string {
		return opentelemetry.CollectorComponent.Unwanted(values.Values{Operator: o})
	}
	g.Expect(of(values.Operator{OpenTelemetryCollector: true})).To(BeEmpty())
	g.Expect(of(values.Operator{})).To(ContainSubstring("OpenTelemetryCollector set to false"))
	g.Expect(of(values.Operator{OpenTelemetryCollector: true, SkipComponents: []string{"vali"}})).To(ContainSubstring("no store of logs"))
	g.Expect(of(values.Operator{OpenTelemetryCollector: true, SkipComponents: []string{"opentelemetry-operator"}})).
		To(ContainSubstring("skips opentelemetry-operator"))
}
