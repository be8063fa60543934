// Package alertmanager returns the objects of the Alertmanager of the garden, which sends the alerts of the Prometheus of the garden to
// the receivers of users. Users set receivers and routes in AlertmanagerConfigs with the label alertmanager=garden, in any namespace. If
// there is no such AlertmanagerConfig, Alertmanager sends nothing.
package alertmanager

import (
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/espalier-dev/espalier/internal/garden/component"
	"github.com/espalier-dev/espalier/internal/garden/component/istio"
	"github.com/espalier-dev/espalier/internal/garden/component/network"
	"github.com/espalier-dev/espalier/internal/garden/component/object"
	"github.com/espalier-dev/espalier/internal/garden/component/observability"
	"github.com/espalier-dev/espalier/internal/garden/component/pods"
	"github.com/espalier-dev/espalier/internal/garden/values"
)

// Name is the name of the component, and of most objects. Its Service has a port PortName.
const (
	Name     = component.AlertmanagerGarden
	PortName = "metrics"
)

const (
	program = "alertmanager"
	port    = 9093
)

var kind = schema.GroupVersionKind{Group: observability.Group, Version: "v1", Kind: "Alertmanager"}

// Objects returns the objects of the ManagedResource.
func Objects(v values.Values) ([]client.Object, error) {
	image, err := v.ExternalImage(program)
	if err != nil {
		return nil, err
	}
	selected := map[string]string{program: observability.Garden}
	instance := observability.Instance{
		Kind: kind, Name: observability.Garden, Component: Name, Image: image, Container: program,
		Labels:   observability.Labels(object.Union(selected, map[string]string{"component": program})),
		Selector: selected, PodLabels: observability.Labels(object.Union(
			network.DNSClients(), network.Allowed(network.ToPublicNetworks, network.ToPrivateNetworks),
			// The Pods tell each other which alerts they have sent, through a Service of prometheus-operator.
			network.ClientsOf("alertmanager-operated-tcp-mesh-tcp", "alertmanager-operated-udp-mesh-udp"),
			map[string]string{"component": program},
		)),
		Memory: "20Mi", MinAllowed: pods.Memory("20Mi"), MaxAllowed: pods.Memory("200Mi"),
		Volume: "alertmanager-db", Size: "1Gi",
		Spec: map[string]any{
			"logLevel": "info", "forceEnableClusterMode": true, "automountServiceAccountToken": false,
			"alertmanagerConfigSelector":          map[string]any{"matchLabels": observability.Texts(selected)},
			"alertmanagerConfigNamespaceSelector": map[string]any{},
			// Routes apply to the alerts of all namespaces, not only to the alerts of the namespace of the AlertmanagerConfig.
			"alertmanagerConfigMatcherStrategy": map[string]any{"type": "None"},
		},
		Annotations: object.Union(
			network.From(network.GardenScrapeTargets, port), network.From(network.SeedScrapeTargets, port), istio.Reachable(v, Name),
		),
		Ports: []corev1.ServicePort{object.ServicePort(PortName, port, port)},
	}
	return append(instance.Objects(v), observability.ServiceMonitor(v, observability.Garden, Name, map[string]any{
		"selector": map[string]any{"matchLabels": observability.Texts(instance.Labels)},
		"endpoints": []any{map[string]any{
			"port": PortName, "metricRelabelings": []any{observability.Keep("alertmanager_.+|process_.+|go_.+")},
		}},
	})), nil
}
