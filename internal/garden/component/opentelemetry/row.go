package opentelemetry

import (
	"cmp"

	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/espalier-dev/espalier/internal/garden/component"
	"github.com/espalier-dev/espalier/internal/garden/component/observability"
	"github.com/espalier-dev/espalier/internal/garden/values"
)

// The OpenTelemetry operator must run until it has removed its finalizer from the OpenTelemetryCollector.
// +kubebuilder:rbac:groups=opentelemetry.io,resources=opentelemetrycollectors,verbs=get,namespace=garden,roleName=espalier-garden-operator-garden

// OperatorComponent is the OpenTelemetry operator. If the runtime cluster is also a Seed, gardenlet does not deploy an OpenTelemetry
// operator of its own, and uses the OpenTelemetry operator of this row.
var OperatorComponent = operatorRow()

// CollectorComponent is the collector.
var CollectorComponent = collectorRow()

func operatorRow() component.Component {
	row := observability.Component(component.OpenTelemetryOperator, "OpenTelemetry operator",
		"creates ManagedResource `opentelemetry-operator`, if feature gate `OpenTelemetryCollector` is `true`",
		nil,
		func(v values.Values, _ component.Secrets) ([]client.Object, error) { return OperatorObjects(v) })
	row.Unless = Unless
	row.Destroy.After = []string{component.OpenTelemetryCollector, component.VirtualDestroyed}
	row.Users = []component.Object{component.Gardenlet(), {GroupVersionKind: Kind, Name: collector}}
	return row
}

func collectorRow() component.Component {
	row := observability.Component(collector, "OpenTelemetry collector",
		"creates ManagedResource `opentelemetry-collector`, if feature gate `OpenTelemetryCollector` is `true` and there is a store of logs",
		[]string{component.OpenTelemetryOperator},
		func(v values.Values, _ component.Secrets) ([]client.Object, error) { return CollectorObjects(v) })
	row.Requires = []string{component.OpenTelemetryOperator}
	row.Unless = func(v values.Values) string { return cmp.Or(Unless(v), observability.WithoutLogs(v)) }
	row.Destroy.After = []string{component.FluentBit}
	// The OpenTelemetry operator gives the Deployment the same name as the Service.
	row.Workloads = component.OneWorkload("Deployment", observability.CollectorService)
	return row
}

// Unless returns a sentence if feature gate OpenTelemetryCollector of the operator is disabled, and "" otherwise.
func Unless(v values.Values) string {
	if v.OpenTelemetryCollector {
		return ""
	}
	return "The configuration of the operator has feature gate OpenTelemetryCollector set to false."
}
