package gardeneraccess

import (
	operatorv1alpha1 "github.com/espalier-dev/espalier/api/operator/v1alpha1"
	"github.com/espalier-dev/espalier/internal/garden/component"
	"github.com/espalier-dev/espalier/internal/garden/component/judgement"
)

// Component is the access of users and of the operator to the virtual cluster. A step reads the live Secrets for its objects.
var Component = component.Component{
	Name: component.GardenerAccess, Plane: component.Virtual, Condition: operatorv1alpha1.VirtualComponentsHealthy,
	Own: component.Own{Objects: true},
	Deploy: component.Task{
		Name:  "Deploying resources for gardener-operator access to virtual garden",
		After: []string{component.VirtualResourceManager},
		Does: "creates the Secrets `gardener` and `gardener-internal` with kubeconfigs, and ManagedResource `shoot-core-gardeneraccess` with " +
			"their rights",
	},
	Destroy: component.Task{Name: "Destroying Gardener virtual garden access resources", After: []string{component.VirtualUnused}},
	Sets:    []component.Set{{Name: ManagedResource, Virtual: true, KeepsObjects: true}}, Ready: judgement.Ready,
	AccessSecrets: []string{External, Internal},
}
