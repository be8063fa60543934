package victorialogs

import (
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/espalier-dev/espalier/internal/garden/component"
	"github.com/espalier-dev/espalier/internal/garden/component/observability"
	"github.com/espalier-dev/espalier/internal/garden/values"
)

// victoria-operator must run until it has removed its finalizer from the VLSingle.
// +kubebuilder:rbac:groups=operator.victoriametrics.com,resources=vlsingles,verbs=get,namespace=garden,roleName=espalier-garden-operator-garden

// OperatorComponent is victoria-operator. In a runtime cluster that is also a Seed, gardenlet does not deploy it and uses this one.
var OperatorComponent = operatorRow()

// Component is VictoriaLogs.
var Component = row()

func operatorRow() component.Component {
	row := observability.Component(component.VictoriaOperator, "victoria-operator",
		"creates ManagedResource `victoria-operator`, if feature gate `VictoriaLogsBackend` is `true`",
		nil,
		func(v values.Values, _ component.Secrets) ([]client.Object, error) { return OperatorObjects(v) })
	row.Unless = Unless
	row.Destroy.After = []string{Name}
	row.Users = []component.Object{component.Gardenlet(), {GroupVersionKind: Kind, Name: Name}}
	return row
}

func row() component.Component {
	row := observability.Component(Name, "VictoriaLogs",
		"creates ManagedResource `victoria-logs`, if feature gate `VictoriaLogsBackend` is `true`, unless Pods have IPv6",
		[]string{component.VictoriaOperator},
		func(v values.Values, _ component.Secrets) ([]client.Object, error) { return Objects(v) })
	row.Requires = []string{component.VictoriaOperator}
	row.Unless = func(v values.Values) string {
		if v.PodsHaveIPv6 && v.VictoriaLogs {
			return "Pods of the runtime cluster have IPv6, which VictoriaLogs is not configured for."
		}
		return Unless(v)
	}
	row.Destroy.After = []string{component.OpenTelemetryCollector}
	row.Volumes = true
	row.Workloads = func(values.Values) []component.Object {
		return []component.Object{{GroupVersionKind: Kind, Name: Name}, component.Workload("Deployment", Workload)}
	}
	return row
}

// Unless returns a sentence if feature gate VictoriaLogsBackend of the operator is disabled, and "" otherwise.
func Unless(v values.Values) string {
	if v.VictoriaLogs {
		return ""
	}
	return "The configuration of the operator does not have feature gate VictoriaLogsBackend."
}
