package gardenercontrollermanager

import (
	"github.com/espalier-dev/espalier/internal/garden/component"
	"github.com/espalier-dev/espalier/internal/garden/component/gardener"
	"github.com/espalier-dev/espalier/internal/garden/values"
	"github.com/espalier-dev/espalier/internal/gardenaccess"
)

// Component is gardener-controller-manager.
var Component = row()

func row() component.Component {
	row := gardener.Component(Name, "Gardener Controller Manager", component.Task{
		After: []string{component.GardenerAPIServer},
		Does:  "creates the ManagedResources `gardener-controller-manager-virtual` and `-runtime`, and waits until both are healthy",
	})
	row.Ignored = Ignored
	row.Needs = component.Needs{Current: []string{gardenaccess.GenericKubeconfig}}
	row.Objects = func(v values.Values, s component.Secrets) (component.Objects, error) {
		objects, err := Objects(v, s.Current[gardenaccess.GenericKubeconfig].Name)
		return objects.With(VirtualObjects(v.ProjectController)), err
	}
	return row
}
