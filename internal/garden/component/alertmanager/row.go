package alertmanager

import (
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/espalier-dev/espalier/internal/garden/component"
	"github.com/espalier-dev/espalier/internal/garden/component/observability"
	"github.com/espalier-dev/espalier/internal/garden/values"
)

// Component is the Alertmanager of the garden.
var Component = row()

func row() component.Component {
	row := observability.Awaited(observability.Component(Name, "Alertmanager",
		"creates ManagedResource `alertmanager-garden`, and waits until it is healthy",
		[]string{component.PrometheusOperator},
		func(v values.Values, _ component.Secrets) ([]client.Object, error) { return Objects(v) }), component.PrometheusOperator)
	row.Volumes = true
	// prometheus-operator names the StatefulSet after the kind and the name of the custom resource, which is also the name of the component.
	row.Workloads = component.OneWorkload("StatefulSet", Name)
	return row
}
