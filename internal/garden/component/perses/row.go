package perses

import (
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/espalier-dev/espalier/internal/garden/component"
	"github.com/espalier-dev/espalier/internal/garden/component/observability"
	"github.com/espalier-dev/espalier/internal/garden/values"
)

// Component is perses-operator.
var Component = row()

func row() component.Component {
	row := observability.Component(Name, "perses-operator",
		"creates ManagedResource `perses-operator`, if `espalier.garden.perses` in the configuration of the operator is `true`",
		nil,
		func(v values.Values, _ component.Secrets) ([]client.Object, error) { return Objects(v) })
	row.Unless = Unless
	return row
}

// Unless returns why a Garden has no perses-operator, in one sentence, or "".
func Unless(v values.Values) string {
	if v.Perses {
		return ""
	}
	return "The configuration of the operator does not have espalier.garden.perses."
}
