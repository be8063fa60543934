package vali

import (
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/espalier-dev/espalier/internal/garden/component"
	"github.com/espalier-dev/espalier/internal/garden/component/observability"
	"github.com/espalier-dev/espalier/internal/garden/values"
)

// Component is vali. Its volume stays when the component is removed.
var Component = row()

func row() component.Component {
	row := observability.Component(Name, "Vali",
		"creates ManagedResource `vali`, unless feature gate `RemoveVali` is `true` or Pods have IPv6", nil,
		func(v values.Values, _ component.Secrets) ([]client.Object, error) { return Objects(v) })
	row.Unless = Unless
	row.Destroy.After = []string{component.FluentBit}
	return row
}

// Unless returns why a Garden has no vali, or "".
func Unless(v values.Values) string {
	switch {
	case v.RemoveVali:
		return "The configuration of the operator has feature gate RemoveVali."
	case v.PodsHaveIPv6:
		return "Pods of the runtime cluster have IPv6, which vali does not support."
	}
	return ""
}
