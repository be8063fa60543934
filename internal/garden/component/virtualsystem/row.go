package virtualsystem

import (
	"sigs.k8s.io/controller-runtime/pkg/client"

	operatorv1alpha1 "github.com/espalier-dev/espalier/api/operator/v1alpha1"
	"github.com/espalier-dev/espalier/internal/garden/component"
	"github.com/espalier-dev/espalier/internal/garden/values"
)

// Component is the system resources of the virtual cluster. Their namespaces can only be deleted completely while all registered APIs are
// served. So a deletion destroys the system resources after the APIs of gardener-apiserver are no longer registered.
var Component = component.Component{
	Name: component.VirtualSystem, Plane: component.Virtual, Condition: operatorv1alpha1.VirtualComponentsHealthy,
	Deploy: component.Task{
		Name: "Deploying virtual system resources", After: []string{component.Deployed(component.VirtualResourceManager)},
		Does: "creates ManagedResource `garden-system-virtual`, with namespaces and roles",
	},
	Destroy: component.Task{Name: "Destroying virtual system resources", After: []string{component.GardenerAPIServer}},
	Sets:    []component.Set{{Name: ManagedResource, Virtual: true}},
	Objects: func(values.Values, component.Secrets) (component.Objects, error) {
		return component.Objects{Sets: [][]client.Object{Objects()}}, nil
	},
}
