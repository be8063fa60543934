package istio

import (
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/espalier-dev/espalier/internal/garden/component/object"
)

// Exposed is a Service in the namespace of the Owner. The gateway passes TLS connections through to its port 443 by their server names.
type Exposed struct {
	Owner   object.Owner
	Service string
}

const exposedPort = int64(443)

func (e Exposed) host() string { return e.Service + "." + e.Owner.Namespace + ".svc.cluster.local" }

func (e Exposed) object(kind, name string, spec map[string]any) client.Object {
	return networkingObject(e.Owner, "v1beta1", kind, name, spec)
}

// Gateway returns the object that makes the gateway accept connections for hosts. It has the name of the Service.
func (e Exposed) Gateway(hosts []any) client.Object {
	return e.object("Gateway", e.Service, map[string]any{
		"selector": map[string]any{"istio": "ingressgateway", "istio-role": "garden"}, // the Pods of the gateway
		"servers": []any{map[string]any{
			"port": map[string]any{"number": exposedPort, "name": "tls", "protocol": "TLS"},
			"tls":  map[string]any{"mode": "PASSTHROUGH"}, "hosts": hosts,
		}},
	})
}

// Route returns a VirtualService, which passes accepted connections for hosts on to the Service.
func (e Exposed) Route(name string, hosts []any) client.Object {
	return e.object("VirtualService", name, map[string]any{
		"exportTo": []any{GatewayNamespace}, "hosts": hosts, "gateways": []any{e.Service},
		"tls": []any{map[string]any{
			"match": []any{map[string]any{"port": exposedPort, "sniHosts": hosts}},
			"route": []any{map[string]any{"destination": map[string]any{"host": e.host(), "port": map[string]any{"number": exposedPort}}}},
		}},
	})
}

// Destination returns a DestinationRule, which says how the gateway connects to the Service. It has the name of the Service.
func (e Exposed) Destination(trafficPolicy map[string]any) client.Object {
	return e.object("DestinationRule", e.Service, map[string]any{
		"exportTo": []any{GatewayNamespace}, "host": e.host(), "trafficPolicy": trafficPolicy,
	})
}
