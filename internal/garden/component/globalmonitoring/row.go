package globalmonitoring

import (
	operatorv1alpha1 "github.com/espalier-dev/espalier/api/operator/v1alpha1"
	"github.com/espalier-dev/espalier/internal/garden/component"
	"github.com/espalier-dev/espalier/internal/garden/component/judgement"
	"github.com/espalier-dev/espalier/internal/garden/rotation"
)

// Component is the credentials of global monitoring. An install step deploys this component, because it must look for a Secret of a user
// in the virtual cluster, which takes the place of the replica.
var Component = component.Component{
	Name: "global-monitoring", Plane: component.Virtual, Condition: operatorv1alpha1.VirtualComponentsHealthy,
	Own: component.Own{Deploy: true},
	Deploy: component.Task{
		Name:  "Deploying credentials of global monitoring into virtual garden",
		After: []string{component.Connection, component.VirtualSystem},
		Does: "generates a password, and creates ManagedResource `global-monitoring-virtual` with it for the " +
			"[Seeds](runtime-as-seed.md#in-the-virtual-cluster), unless a user has created a Secret for that",
	},
	Destroy: component.Task{
		Name: "Destroying credentials of global monitoring in virtual garden", After: []string{component.VirtualUnused},
	},
	Credentials: []component.Credential{{
		Name: SecretName, Request: Credentials, Rotation: rotation.Observability,
		Purpose: "authenticates at global monitoring; Seeds get copies", Users: "Prometheus servers of Seeds",
		Restored: component.FromBackup,
	}},
	Sets: []component.Set{{Name: ManagedResource, Virtual: true}}, Ready: judgement.Ready,
}
