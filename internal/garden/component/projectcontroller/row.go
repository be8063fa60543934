package projectcontroller

import (
	"github.com/espalier-dev/espalier/internal/garden/component"
	"github.com/espalier-dev/espalier/internal/garden/component/gardener"
	"github.com/espalier-dev/espalier/internal/garden/values"
	"github.com/espalier-dev/espalier/internal/gardenaccess"
)

// Component is project-controller. It starts after the policy that keeps gardener-controller-manager from changing Projects.
var Component = row()

func row() component.Component {
	row := gardener.Component(Name, "project-controller", component.Task{
		After: []string{component.GardenerControllerManager},
		Does: "deletes the ManagedResources `project-controller-virtual` and `-runtime`; creates them, and waits until both are healthy, if " +
			"setting `projectController` is `true`",
	})
	for i := range row.Sets {
		row.Sets[i].Optional = true
	}
	row.Unless = func(v values.Values) string {
		if v.ProjectController {
			return ""
		}
		return "gardener-controller-manager reconciles Projects, because the operator does not have the setting projectController."
	}
	row.Needs = component.Needs{Current: []string{gardenaccess.GenericKubeconfig}}
	row.Objects = func(v values.Values, s component.Secrets) (component.Objects, error) {
		objects, err := Objects(v, s.Current[gardenaccess.GenericKubeconfig].Name)
		if err != nil {
			return component.Objects{}, err
		}
		virtual, err := VirtualObjects()
		return objects.With(virtual), err
	}
	return row
}
