package resourcemanager

import (
	operatorv1alpha1 "github.com/espalier-dev/espalier/api/operator/v1alpha1"
	"github.com/espalier-dev/espalier/internal/garden/component"
	"github.com/espalier-dev/espalier/internal/garden/component/crds"
)

// Component is the resource manager of the runtime cluster, with the definition of ManagedResources. It has a step of its own.
var Component = component.Component{
	Name: component.ResourceManager, Plane: component.Runtime, Definitions: crds.ManagedResources,
	Own: component.Own{Deploy: true, Destroy: true},
	Deploy: component.Task{
		Name:  "Deploying and waiting for gardener-resource-manager to be healthy",
		After: []string{component.ETCDDefinitions, component.VPADefinitions, component.HVPA, component.IstioDefinitions},
		Does: "deploys the definition of ManagedResources and four of Espalier's binaries, and waits for their Deployments, and until " +
			"MutatingWebhookConfiguration `gardener-resource-manager` has webhooks: they add tokens to Pods. After an upgrade it also waits " +
			"until netpol-controller has made the [NetworkPolicies](#networkpolicies) that replace those of earlier releases",
	},
	Destroy: component.Task{
		Name: "Destroying and waiting for gardener-resource-manager to be deleted", After: []string{component.NoManagedResources},
	},
}

// VirtualComponent is the resource manager of the virtual cluster. It has a step of its own: it needs a certificate for its first token.
var VirtualComponent = component.Component{
	Name: component.VirtualResourceManager, Plane: component.Virtual, Condition: operatorv1alpha1.VirtualComponentsHealthy,
	Own: component.Own{Deploy: true, Await: true, Destroy: true},
	Deploy: component.Task{
		Name: "Deploying gardener-resource-manager for virtual garden", After: []string{component.KubeAPIServer},
		Does: "creates the [resource manager of the virtual cluster](#the-resource-manager-of-the-virtual-cluster)",
	},
	Await: component.Task{
		Name: "Waiting until gardener-resource-manager for virtual garden rolled out", Does: "waits until its Deployments are healthy",
	},
	Destroy: component.Task{
		Name: "Destroying gardener-resource-manager for virtual garden", After: []string{component.VirtualSetsDestroyed},
	},
	Sets: []component.Set{{Name: VirtualManagedResource, Virtual: true}}, Deployments: []string{VirtualName},
}
