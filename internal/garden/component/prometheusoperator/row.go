package prometheusoperator

import (
	"sigs.k8s.io/controller-runtime/pkg/client"

	resourcesv1alpha1 "github.com/espalier-dev/espalier/api/resources/v1alpha1"
	"github.com/espalier-dev/espalier/internal/garden/component"
	"github.com/espalier-dev/espalier/internal/garden/component/observability"
	"github.com/espalier-dev/espalier/internal/garden/values"
)

// Component is prometheus-operator. In a runtime cluster that is also a Seed, gardenlet does not deploy it and uses this one.
var Component = row()

func row() component.Component {
	row := observability.Component(Name, "prometheus-operator",
		"creates ManagedResource `prometheus-operator`, also for the [Seed](runtime-as-seed.md) of the runtime cluster",
		[]string{component.MonitoringDefinitions},
		func(v values.Values, _ component.Secrets) ([]client.Object, error) { return Objects(v) })
	row.Users = []component.Object{component.Gardenlet()}
	// prometheus-operator must run until the instances that it manages are deleted.
	for _, each := range []string{component.AlertmanagerGarden, component.PrometheusGarden, component.PrometheusLongterm} {
		row.Destroy.After = append(row.Destroy.After, each)
		row.Users = append(row.Users, component.Object{
			GroupVersionKind: resourcesv1alpha1.SchemeGroupVersion.WithKind("ManagedResource"), Name: each,
		})
	}
	return row
}
