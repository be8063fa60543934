package networkpolicies

import (
	"sigs.k8s.io/controller-runtime/pkg/client"

	operatorv1alpha1 "github.com/espalier-dev/espalier/api/operator/v1alpha1"
	"github.com/espalier-dev/espalier/internal/garden/component"
	"github.com/espalier-dev/espalier/internal/garden/component/system"
	"github.com/espalier-dev/espalier/internal/garden/values"
)

// Component is the system resources of the runtime cluster: the NetworkPolicies of this package and the PriorityClasses of package system.
var Component = component.Component{
	Name: component.RuntimeSystem, Plane: component.Runtime, Condition: operatorv1alpha1.RuntimeComponentsHealthy,
	Deploy: component.Task{
		Name: "Deploying runtime system resources", After: []string{component.ResourceManager},
		Does: "creates the ManagedResources `garden-networkpolicies` and `garden-system` of class `seed`, with " +
			"[NetworkPolicies](#networkpolicies) and PriorityClasses",
	},
	Destroy: component.Task{ // the controllers of extensions need their connections until their objects are gone
		Name:  "Destroying runtime system resources",
		After: []string{component.RuntimeSetsDestroyed, component.BackupBucket, component.DNSRecords, component.EarlyExtensions},
	},
	Sets: []component.Set{{Name: ManagedResource, Optional: true}, {Name: system.ManagedResource}},
	Objects: func(v values.Values, _ component.Secrets) (component.Objects, error) {
		return component.Objects{Sets: [][]client.Object{Objects(v), system.Objects()}}, nil
	},
}
