package prometheus

import (
	corev1 "k8s.io/api/core/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/espalier-dev/espalier/internal/garden/component"
	"github.com/espalier-dev/espalier/internal/garden/component/globalmonitoring"
	"github.com/espalier-dev/espalier/internal/garden/component/observability"
	"github.com/espalier-dev/espalier/internal/garden/values"
)

// GardenComponent is the instance garden. A step reads the Seeds of the virtual cluster for its objects.
var GardenComponent = gardenRow()

func gardenRow() component.Component {
	row := observability.Awaited(observability.Component(component.PrometheusGarden, "Prometheus for the garden",
		"creates the ManagedResources `prometheus-garden-target` and `prometheus-garden`, and waits until both are healthy",
		[]string{component.PrometheusOperator, component.GardenerAPIServer, component.Connection, globalmonitoring.Component.Name}, nil),
		component.PrometheusOperator)
	row.Volumes = true
	row.Own, row.Objects, row.Workloads = component.Own{Deploy: true}, nil, workloads(component.PrometheusGarden)
	row.Sets = []component.Set{{Name: TargetSet, Virtual: true}, {Name: component.PrometheusGarden}}
	// The access Secret is no AccessSecret: the token is renewed before the operator connects to the virtual cluster, and this row starts
	// after that.
	row.Leftovers = []component.Object{{GroupVersionKind: corev1.SchemeGroupVersion.WithKind("Secret"), Name: AccessSecret}}
	row.Credentials = []component.Credential{component.Token(AccessSecret, "Prometheus of the garden, blackbox-exporter", "12 hours")}
	return row
}

// LongtermComponent is the instance longterm.
var LongtermComponent = longtermRow()

func longtermRow() component.Component {
	row := observability.Awaited(observability.Component(component.PrometheusLongterm, "long-term Prometheus",
		"creates ManagedResource `prometheus-longterm`, and waits until it is healthy",
		[]string{component.PrometheusGarden},
		func(v values.Values, _ component.Secrets) ([]client.Object, error) { return LongtermObjects(v) },
	), component.PrometheusOperator, component.PrometheusGarden)
	row.Volumes = true
	row.Workloads = workloads(component.PrometheusLongterm)
	return row
}

// workloads returns the StatefulSet that prometheus-operator makes of an instance, which has the name of its component.
func workloads(name string) func(values.Values) []component.Object {
	return component.OneWorkload("StatefulSet", name)
}
