package nginxingress

import (
	"sigs.k8s.io/controller-runtime/pkg/client"

	operatorv1alpha1 "github.com/espalier-dev/espalier/api/operator/v1alpha1"
	"github.com/espalier-dev/espalier/internal/garden/component"
	"github.com/espalier-dev/espalier/internal/garden/values"
)

// Component is the ingress controller.
var Component = component.Component{
	Name: "nginx-ingress", Plane: component.Runtime, Condition: operatorv1alpha1.RuntimeComponentsHealthy,
	Unless: func(v values.Values) string {
		if v.DisableNginxIngress {
			return "The configuration of the operator disables the ingress controller."
		}
		return ""
	},
	Deploy: component.Task{
		Name: "Deploying nginx-ingress controller", After: []string{component.ResourceManager},
		Does: "deletes ManagedResource `nginx-ingress`; creates it if feature gate `DisableNginxIngressInGarden` is `false`",
	},
	Destroy: component.Task{
		Name: "Destroying nginx-ingress controller", After: []string{component.Etcds, component.ExposedService, component.KubeAPIServer},
	},
	Sets: []component.Set{{Name: ManagedResource, Optional: true}},
	Objects: func(v values.Values, _ component.Secrets) (component.Objects, error) {
		objects, err := Objects(v)
		return component.Objects{Sets: [][]client.Object{objects}}, err
	},
}
