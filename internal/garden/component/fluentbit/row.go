package fluentbit

import (
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/espalier-dev/espalier/internal/garden/component"
	"github.com/espalier-dev/espalier/internal/garden/component/observability"
	"github.com/espalier-dev/espalier/internal/garden/values"
)

// Component is fluent-bit.
var Component = row()

func row() component.Component {
	row := afterControlPlane(observability.Component(Name, "fluent-bit",
		"creates ManagedResource `fluent-bit`, if there is a store of logs", nil,
		func(v values.Values, _ component.Secrets) ([]client.Object, error) { return Objects(v) }))
	// fluent-operator gives the DaemonSet the name of the object.
	row.Workloads = func(v values.Values) []component.Object {
		return []component.Object{component.Workload("DaemonSet", ObjectName(v.OpenTelemetryCollector))}
	}
	return row
}

// CustomResourcesComponent is the parts of the configuration that only a garden has.
var CustomResourcesComponent = afterControlPlane(observability.Component(
	component.FluentCustomResources, "custom resources for fluent-operator",
	"creates ManagedResource `fluent-operator-custom-resources-garden`, if there is a store of logs", nil,
	func(v values.Values, _ component.Secrets) ([]client.Object, error) { return CustomResources(v), nil }))

// afterControlPlane returns the row with three changes. The component requires fluent-operator. The component is unwanted if Unless
// returns a reason. A deletion destroys the component after the milestone VirtualDestroyed, so that logs are collected until the objects
// in the virtual cluster are gone.
func afterControlPlane(row component.Component) component.Component {
	row.Requires, row.Unless = []string{component.FluentOperator}, Unless
	row.Destroy.After = append(row.Destroy.After, component.VirtualDestroyed)
	return row
}

// Unless returns why a Garden collects no logs, in one sentence, or "".
func Unless(v values.Values) string {
	if v.OpenTelemetryCollector && (v.Skips(component.OpenTelemetryCollector) || v.Skips(component.OpenTelemetryOperator)) {
		return "The configuration of the operator skips the collector, to which fluent-bit would send logs."
	}
	return observability.WithoutLogs(v)
}
