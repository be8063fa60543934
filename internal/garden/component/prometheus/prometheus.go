// Package prometheus returns the objects of the two instances of Prometheus of a Garden. The instance garden scrapes the programs of the
// runtime cluster and of the virtual cluster, and the Prometheus of each Seed; it evaluates the alerts. The instance longterm copies a
// part of the series of the instance garden, and keeps this part for longer.
package prometheus

import (
	"fmt"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/espalier-dev/espalier/internal/garden/component/istio"
	"github.com/espalier-dev/espalier/internal/garden/component/network"
	"github.com/espalier-dev/espalier/internal/garden/component/object"
	"github.com/espalier-dev/espalier/internal/garden/component/observability"
	"github.com/espalier-dev/espalier/internal/garden/component/pods"
	"github.com/espalier-dev/espalier/internal/garden/values"
)

const (
	program = "prometheus"
	// port is the port of Prometheus, and servicePort is the port of its Service.
	port        = 9090
	servicePort = 80
	portName    = "web"

	// clusterRole is the name of the ClusterRole with the rights of all instances. Row prometheus-operator deploys the ClusterRole.
	clusterRole = "prometheus"

	// keptOfServer is a regular expression for the metrics that an instance keeps of itself.
	keptOfServer = "prometheus_.+|process_.+|go_.+"
)

var kind = schema.GroupVersionKind{Group: observability.Group, Version: "v1", Kind: "Prometheus"}

// instance returns the common parts of both instances, for a name.
func instance(image, name string) observability.Instance {
	component := program + "-" + name
	selected := map[string]any{"matchLabels": map[string]any{observability.SelectedBy: name}}
	spec := map[string]any{
		"shards": int64(1), "scrapeInterval": "1m", "evaluationInterval": "1m", "scrapeTimeout": "50s", "reloadStrategy": "HTTP",
		"logLevel": "info", "serviceAccountName": component, "web": map[string]any{"maxConnections": int64(1024)},
		// Two Pods on one node would fail together.
		"topologySpreadConstraints": []any{map[string]any{
			"maxSkew": int64(1), "topologyKey": corev1.LabelHostname, "whenUnsatisfiable": string(corev1.ScheduleAnyway),
			"labelSelector": map[string]any{"matchLabels": map[string]any{program: name}},
		}},
	}
	for _, each := range []string{"serviceMonitor", "podMonitor", "scrapeConfig", "probe", "rule"} {
		spec[each+"Selector"], spec[each+"NamespaceSelector"] = selected, map[string]any{}
	}
	return observability.Instance{
		Kind: kind, Name: name, Component: component, Image: image, Container: program,
		Labels: observability.Labels(map[string]string{
			"app": program, "name": name, "health-check-by": "gardener-operator",
		}),
		Selector: map[string]string{program: name},
		PodLabels: observability.Labels(object.Union(network.Clients(), map[string]string{
			"app": program, "name": name, "observability.gardener.cloud/app": component,
		})),
		CPU: "300m", Memory: "1000Mi", MinAllowed: pods.Memory("100M"), Volume: "prometheus-db", Spec: spec,
		Annotations: object.Union(
			network.From(network.GardenScrapeTargets, port), network.From(network.SeedScrapeTargets, port),
			network.FromNamespaces(`[{"matchLabels":{"gardener.cloud/role":"shoot"}},{"matchLabels":{"gardener.cloud/role":"istio-ingress"}}]`),
			map[string]string{istio.ExportTo: istio.GatewayNamespace},
		),
		Ports: []corev1.ServicePort{object.ServicePort(portName, servicePort, port)},
	}
}

// accountOf returns the ServiceAccount of an instance, and its rights.
func accountOf(v values.Values, of observability.Instance) []client.Object {
	owner := of.Owner(v)
	return []client.Object{owner.ServiceAccount(of.Component), owner.ClusterRoleBinding(of.Component, clusterRole, of.Component)}
}

// server returns a scrape configuration for a server in the Pods of an instance. The argument of is the name of the instance. The series
// get the label job with the value <name>-<of>. Keep is a regular expression for the names of the metrics to keep.
func server(v values.Values, of, name string, serverPort int, keep string) client.Object {
	return observability.ScrapeConfig(v, of, name, map[string]any{
		"staticConfigs": []any{map[string]any{"targets": []any{fmt.Sprintf("localhost:%d", serverPort)}}},
		"relabelings": []any{
			observability.SetLabel("job", name+"-"+of), observability.SetLabel("namespace", v.Namespace),
		},
		"metricRelabelings": []any{observability.Keep(keep)},
	})
}
