package metricsexporter

import (
	operatorv1alpha1 "github.com/espalier-dev/espalier/api/operator/v1alpha1"
	"github.com/espalier-dev/espalier/internal/garden/component"
	"github.com/espalier-dev/espalier/internal/garden/component/gardener"
	"github.com/espalier-dev/espalier/internal/garden/values"
	"github.com/espalier-dev/espalier/internal/gardenaccess"
)

// Component is gardener-metrics-exporter. Nothing waits for it.
var Component = row()

func row() component.Component {
	row := gardener.Component(Name, Name, component.Task{
		After: []string{component.GardenerAPIServer},
		Does: "creates the ManagedResources `gardener-metrics-exporter-virtual` and `-runtime`; deletes them if the configuration of the " +
			"operator skips the component",
	})
	row.Condition, row.Skippable, row.Ready, row.Within = operatorv1alpha1.ObservabilityComponentsHealthy, true, nil, 0
	row.Needs = component.Needs{Current: []string{gardenaccess.GenericKubeconfig}}
	row.Objects = func(v values.Values, s component.Secrets) (component.Objects, error) {
		objects, err := Objects(v, s.Current[gardenaccess.GenericKubeconfig].Name)
		return objects.With(VirtualObjects()), err
	}
	return row
}
