package crds

import (
	"github.com/espalier-dev/espalier/internal/garden/component"
	"github.com/espalier-dev/espalier/internal/garden/values"
)

const deploys = "deploys definitions, and waits until they are served"

func afterResourceManager(task string) component.Task {
	return component.Task{Name: task, After: []string{component.ResourceManager}}
}

// ETCDComponent is the definitions for etcd-druid. A step of its own destroys them.
var ETCDComponent = component.Component{
	Name: component.ETCDDefinitions, Plane: component.Runtime, Definitions: ETCD,
	Own:     component.Own{Destroy: true},
	Deploy:  component.Task{Name: "Deploying ETCD-related custom resource definitions", Does: deploys},
	Destroy: afterResourceManager("Destroying ETCD-related custom resource definitions"),
}

// VPAComponent is the definitions for the vertical pod autoscaler.
var VPAComponent = component.Component{
	Name: component.VPADefinitions, Plane: component.Runtime, Definitions: VPA, Unless: values.Values.WithoutVPA,
	Deploy: component.Task{
		Name: "Deploying custom resource definitions for VPA",
		Does: deploys + "; skipped if the Garden disables the vertical pod autoscaler",
	},
	Destroy: afterResourceManager("Destroying custom resource definition for VPA"),
}

// The definition of Hvpas is removed, unless the cluster has Hvpas.
// +kubebuilder:rbac:groups=apiextensions.k8s.io,resources=customresourcedefinitions,resourceNames=hvpas.autoscaling.k8s.io,verbs=patch;delete
// +kubebuilder:rbac:groups=autoscaling.k8s.io,resources=hvpas,verbs=list

// HVPAComponent is the definition of Hvpas, which the operator never deploys. A step of its own removes it.
var HVPAComponent = component.Component{
	Name: component.HVPA, Plane: component.Runtime,
	Own: component.Own{Deploy: true},
	Deploy: component.Task{
		Name: "Reconciling custom resource definitions for HVPA",
		Does: "deletes ManagedResource `hvpa` of former releases of Gardener, and the definition of Hvpas unless there are some",
	},
	Destroy: afterResourceManager("Destroying custom resource definition for HVPA"),
}

// IstioComponent is the definitions for Istio.
var IstioComponent = component.Component{
	Name: component.IstioDefinitions, Plane: component.Runtime, Definitions: Istio,
	Deploy:  component.Task{Name: "Deploying custom resource definitions for Istio", Does: deploys},
	Destroy: afterResourceManager("Destroying custom resource definition for Istio"),
}

// FluentComponent is the definitions for fluent-operator.
var FluentComponent = component.Component{
	Name: component.FluentDefinitions, Plane: component.Runtime, Definitions: Fluent,
	Deploy:  component.Task{Name: "Deploying custom resource definitions for fluent-operator", Does: deploys},
	Destroy: afterResourceManager("Destroying custom resource definition for fluent-operator"),
}

// MonitoringComponent is the definitions for prometheus-operator. The vertical pod autoscaler starts after these definitions, because it
// needs minutes to notice a kind whose definition was created later.
var MonitoringComponent = component.Component{
	Name: component.MonitoringDefinitions, Plane: component.Runtime, Definitions: Monitoring,
	Deploy: component.Task{
		Name: "Deploying custom resource definitions for prometheus-operator",
		Does: deploys + "; the [Seed](runtime-as-seed.md) of the runtime cluster needs them",
	},
	Destroy: afterResourceManager("Destroying custom resource definitions for prometheus-operator"),
}

// OpenTelemetryComponent is the definitions for the OpenTelemetry operator. The vertical pod autoscaler starts after them, too.
var OpenTelemetryComponent = component.Component{
	Name: component.OpenTelemetryDefinitions, Plane: component.Runtime, Definitions: OpenTelemetry,
	OnlyFor: component.OpenTelemetryOperator, Users: []component.Object{component.Gardenlet()},
	Unless: func(v values.Values) string {
		return unless(v.OpenTelemetryCollector, "The configuration of the operator has feature gate OpenTelemetryCollector set to false.")
	},
	Deploy: component.Task{
		Name: "Deploying custom resource definitions for OpenTelemetry operator",
		Does: deploys + "; skipped if feature gate `OpenTelemetryCollector` is `false`",
	},
	Destroy: afterResourceManager("Destroying custom resource definitions for OpenTelemetry operator"),
}

// VictoriaComponent is the definition for the operator of VictoriaMetrics.
var VictoriaComponent = component.Component{
	Name: component.VictoriaDefinitions, Plane: component.Runtime, Definitions: Victoria,
	OnlyFor: component.VictoriaOperator, Users: []component.Object{component.Gardenlet()},
	Unless: func(v values.Values) string {
		return unless(v.VictoriaLogs, "The configuration of the operator does not have feature gate VictoriaLogsBackend.")
	},
	Deploy: component.Task{
		Name: "Deploying custom resource definitions for victoria-operator",
		Does: deploys + "; skipped unless feature gate `VictoriaLogsBackend` is `true`",
	},
	Destroy: afterResourceManager("Destroying custom resource definitions for victoria-operator"),
}

// PersesComponent is the definitions for perses-operator.
var PersesComponent = component.Component{
	Name: component.PersesDefinitions, Plane: component.Runtime, Definitions: Perses,
	OnlyFor: component.PersesOperator, Users: []component.Object{component.Gardenlet()},
	Unless: func(v values.Values) string {
		return unless(v.Perses, "The configuration of the operator does not have espalier.garden.perses.")
	},
	Deploy: component.Task{
		Name: "Deploying custom resource definitions for perses-operator", Does: deploys + "; skipped unless `espalier.garden.perses` is `true`",
	},
	Destroy: afterResourceManager("Destroying custom resource definitions for perses-operator"),
}

// unless returns the reason if condition is false, and "" if it is true.
func unless(condition bool, reason string) string {
	if condition {
		return ""
	}
	return reason
}

// ExtensionsComponent is the definitions of extensions.gardener.cloud that gardenlet expects in the runtime cluster of a Garden.
var ExtensionsComponent = component.Component{
	Name: component.ExtensionDefinitions, Plane: component.Runtime, Definitions: Extensions,
	Deploy: component.Task{
		Name: "Deploying custom resource definitions for extensions",
		Does: deploys + "; the [Seed](runtime-as-seed.md) of the runtime cluster needs them",
	},
	Destroy: afterResourceManager("Destroying custom resource definitions for extensions"),
}
