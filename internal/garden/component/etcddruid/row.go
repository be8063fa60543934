package etcddruid

import (
	"sigs.k8s.io/controller-runtime/pkg/client"

	operatorv1alpha1 "github.com/espalier-dev/espalier/api/operator/v1alpha1"
	"github.com/espalier-dev/espalier/internal/garden/component"
	"github.com/espalier-dev/espalier/internal/garden/component/judgement"
	"github.com/espalier-dev/espalier/internal/garden/values"
)

// Component is etcd-druid. A step of its own checks that no Etcd is left before etcd-druid is destroyed.
var Component = component.Component{
	Name: name, Plane: component.Runtime, Condition: operatorv1alpha1.RuntimeComponentsHealthy,
	Own: component.Own{Destroy: true},
	Deploy: component.Task{
		Name: "Deploying ETCD Druid", After: []string{component.ResourceManager},
		Does: "creates ManagedResource `etcd-druid`, and waits until etcd-druid is healthy and rolled out",
	},
	Destroy: component.Task{
		Name: "Destroying ETCD Druid", After: []string{component.Etcds, component.ExposedService, component.KubeAPIServer},
	},
	Sets: []component.Set{{Name: ManagedResource}}, Ready: judgement.RolledOut,
	Objects: func(v values.Values, _ component.Secrets) (component.Objects, error) {
		objects, err := Objects(v)
		return component.Objects{Sets: [][]client.Object{objects}}, err
	},
}
