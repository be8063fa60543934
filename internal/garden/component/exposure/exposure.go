// Package exposure returns the objects by which clients reach the API server of the virtual cluster: its Service, and the objects of Istio
// with which the gateway passes TLS connections through to that Service by their server names.
//
// All objects are deployed directly. Clients connect to the load balancer of the gateway. The DNS records for the hosts are DNSRecords of
// package extensionobjects; if the Garden has no DNS providers, the user maintains them.
package exposure

import (
	"fmt"

	corev1 "k8s.io/api/core/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/espalier-dev/espalier/internal/garden/component/istio"
	"github.com/espalier-dev/espalier/internal/garden/component/network"
	"github.com/espalier-dev/espalier/internal/garden/component/object"
	"github.com/espalier-dev/espalier/internal/garden/values"
)

const (
	// Name is the name of all objects, and of the Deployment of kube-apiserver.
	Name = network.VirtualAPIServer
	// Port is the port of the Service, and of its Pods.
	Port = 443
)

// clientNamespaces selects the namespaces whose Pods may connect to the Pods of the Service: the namespace of the gateway, and namespaces
// with the label networking.gardener.cloud/access-target-apiserver=allowed.
const clientNamespaces = `[{"matchLabels":{"gardener.cloud/role":"istio-ingress"}},` +
	`{"matchLabels":{"networking.gardener.cloud/access-target-apiserver":"allowed"}}]`

// Labels returns the labels of all objects, by which the Service selects Pods.
func Labels() map[string]string {
	return map[string]string{"app": "kubernetes", "role": "apiserver"}
}

// Hosts returns the hosts at which clients reach the API server, in the order of the domains.
func Hosts(v values.Values) []string {
	hosts := make([]string, 0, 2*len(v.Domains))
	for _, domain := range v.Domains {
		hosts = append(hosts, "api."+domain, "gardener."+domain)
	}
	return hosts
}

// Service returns the Service of the API server.
func Service(v values.Values) *corev1.Service {
	service := Owner(v).Service(Name, object.Union(
		v.LoadBalancers.Annotations, network.From(network.GardenScrapeTargets, Port), network.FromNamespaces(clientNamespaces),
		map[string]string{istio.ExportTo: istio.GatewayNamespace},
	), object.ServicePort("kube-apiserver", Port, Port))
	service.Spec.TrafficDistribution = object.TrafficDistribution(v)
	return service
}

// Routes returns the objects of Istio, which refer to the Service.
func Routes(v values.Values) []client.Object {
	service := istio.Exposed{Owner: Owner(v), Service: Name}
	hosts := make([]any, 0, 2*len(v.Domains))
	for _, each := range Hosts(v) {
		hosts = append(hosts, each)
	}
	return []client.Object{service.Gateway(hosts), service.Route(Name, hosts), service.Destination(trafficPolicy())}
}

// trafficPolicy limits connections. The gateway passes the client's TLS through. Istio ignores localityLbSetting without outlier detection.
func trafficPolicy() map[string]any {
	return map[string]any{
		"connectionPool": map[string]any{"tcp": map[string]any{
			"maxConnections": int64(5000), "maxConnectionDuration": "86400s",
			"tcpKeepalive": map[string]any{"time": "7200s", "interval": "75s"},
		}},
		"loadBalancer": map[string]any{"localityLbSetting": map[string]any{
			"enabled": true, "failoverPriority": []any{corev1.LabelTopologyZone},
		}},
		"outlierDetection": map[string]any{"minHealthPercent": int64(0)},
		"tls":              map[string]any{"mode": "DISABLE"},
	}
}

// Owner returns the owner of all objects.
func Owner(v values.Values) object.Owner {
	return object.Owner{Namespace: v.Namespace, Labels: Labels()}
}

// Address returns the address of the load balancer of a gateway, by its Service: a host name, or else an IP address. It is empty if there
// is none yet. Of several load balancers, the last one counts.
func Address(gateway *corev1.Service) string {
	ingress := gateway.Status.LoadBalancer.Ingress
	if len(ingress) == 0 {
		return ""
	}
	last := ingress[len(ingress)-1]
	if last.Hostname != "" {
		return last.Hostname
	}
	return last.IP
}

// Problem returns why clients cannot reach a gateway, by its Service, or "".
func Problem(gateway *corev1.Service) string {
	if Address(gateway) != "" {
		return ""
	}
	return fmt.Sprintf("Service %s/%s has no load balancer yet: its status.loadBalancer.ingress is empty", gateway.Namespace, gateway.Name)
}
