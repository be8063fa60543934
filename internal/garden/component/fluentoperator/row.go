package fluentoperator

import (
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/espalier-dev/espalier/internal/garden/component"
	"github.com/espalier-dev/espalier/internal/garden/component/fluentbit"
	"github.com/espalier-dev/espalier/internal/garden/component/observability"
	"github.com/espalier-dev/espalier/internal/garden/values"
)

// fluent-operator must run until it has removed its finalizer from the FluentBit.
// +kubebuilder:rbac:groups=fluentbit.fluent.io,resources=fluentbits,verbs=get,namespace=garden,roleName=espalier-garden-operator-garden

// Component is fluent-operator. In a runtime cluster that is also a Seed, gardenlet does not deploy it and uses this one.
var Component = row()

func row() component.Component {
	row := observability.Component(Name, "fluent-operator",
		"creates ManagedResource `fluent-operator`, also for the [Seed](runtime-as-seed.md) of the runtime cluster",
		nil,
		func(v values.Values, _ component.Secrets) ([]client.Object, error) { return Objects(v) })
	row.Destroy.After = []string{component.FluentBit, component.FluentCustomResources}
	row.Users = []component.Object{
		component.Gardenlet(),
		{GroupVersionKind: fluentbit.Kind, Name: fluentbit.ObjectName(true)},
		{GroupVersionKind: fluentbit.Kind, Name: fluentbit.ObjectName(false)},
	}
	return row
}
