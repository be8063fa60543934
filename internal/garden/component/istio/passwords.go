package istio

import (
	"fmt"
	"slices"

	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/espalier-dev/espalier/internal/garden/component/network"
	"github.com/espalier-dev/espalier/internal/garden/component/object"
	"github.com/espalier-dev/espalier/internal/garden/component/observability"
	"github.com/espalier-dev/espalier/internal/garden/values"
)

// AskPassword returns an EnvoyFilter called name. For each request for one of the hosts, the filter makes the gateway first ask the server
// that checks passwords. The argument server is the host name of this server. If the server does not answer, the gateway refuses the
// requests.
func AskPassword(name, server string, hosts ...any) client.Object {
	patches := make([]any, 0, len(hosts))
	for _, host := range hosts {
		patches = append(patches, map[string]any{
			"applyTo": "HTTP_FILTER",
			"match": map[string]any{"context": "GATEWAY", "listener": map[string]any{
				"portNumber":  int64(gatewayPort),
				"filterChain": map[string]any{"sni": host, "filter": map[string]any{"name": "envoy.filters.network.http_connection_manager"}},
			}},
			"patch": map[string]any{"operation": "INSERT_FIRST", "value": map[string]any{
				"name": "envoy.filters.http.ext_authz",
				"typed_config": map[string]any{
					"@type":                 "type.googleapis.com/envoy.extensions.filters.http.ext_authz.v3.ExtAuthz",
					"transport_api_version": "V3", "failure_mode_allow": false,
					"grpc_service": map[string]any{
						"timeout":    "2s",
						"envoy_grpc": map[string]any{"cluster_name": fmt.Sprintf("outbound|%d||%s", PasswordPort, server)},
					},
				},
			}},
		})
	}
	return filter(gatewayOwner(), name, patches...)
}

// Reachable returns the annotations of the Service of a component that let the gateway connect to its web UI, if users reach it.
func Reachable(v values.Values, name string) map[string]string {
	if !slices.ContainsFunc(observability.Exposed(v), func(ui observability.UI) bool { return ui.Component == name }) {
		return nil
	}
	return object.Union(network.FromNamespaces(GatewayNamespaceSelector), map[string]string{ExportTo: GatewayNamespace})
}

// ServedHost is a Service in the namespace of the Owner. The gateway ends TLS connections for its hosts, and passes requests on to a port
// of the Service.
type ServedHost struct {
	Owner object.Owner
	// Name is the name of the objects.
	Name    string
	Service string
	Port    int32
	Hosts   []any
	// Credential is the name of the Secret with the certificate, in the namespace of the gateway.
	Credential string
	// Allowed is the prefix of the paths that clients may request; empty: all. Refused are prefixes of paths that they may not request.
	Allowed string
	Refused []string
}

// Objects returns the Gateway, the VirtualService and the DestinationRule.
func (s ServedHost) Objects() []client.Object {
	host := Exposed{Owner: s.Owner, Service: s.Service}.host()
	object := func(kind string, spec map[string]any) client.Object {
		return networkingObject(s.Owner, "v1beta1", kind, s.Name, spec)
	}
	return []client.Object{
		object("Gateway", map[string]any{
			"selector": map[string]any{"istio": "ingressgateway", "istio-role": "garden"}, // the Pods of the gateway
			"servers": []any{map[string]any{
				"port": map[string]any{"number": exposedPort, "name": "tls", "protocol": "HTTPS"},
				"tls":  map[string]any{"mode": "SIMPLE", "credentialName": s.Credential}, "hosts": s.Hosts,
			}},
		}),
		object("VirtualService", map[string]any{
			"exportTo": []any{GatewayNamespace}, "hosts": s.Hosts, "gateways": []any{s.Name}, "http": s.routes(host),
		}),
		object("DestinationRule", map[string]any{
			"exportTo": []any{GatewayNamespace}, "host": host,
			"trafficPolicy": map[string]any{
				"connectionPool": map[string]any{"tcp": map[string]any{
					"maxConnectionDuration": "86400s", "tcpKeepalive": map[string]any{"time": "7200s", "interval": "75s"},
				}},
				"tls": map[string]any{"mode": "DISABLE"},
			},
		}),
	}
}

func (s ServedHost) routes(host string) []any {
	prefix := func(path string) []any { return []any{map[string]any{"uri": map[string]any{"prefix": path}}} }
	forbidden := map[string]any{"status": int64(403)}
	route := map[string]any{"route": []any{map[string]any{"destination": map[string]any{
		"host": host, "port": map[string]any{"number": int64(s.Port)},
	}}}}
	var routes []any
	for _, path := range s.Refused {
		routes = append(routes, map[string]any{"match": prefix(path), "directResponse": forbidden})
	}
	if s.Allowed == "" {
		return append(routes, route)
	}
	route["match"] = prefix(s.Allowed)
	return append(routes, route, map[string]any{"directResponse": forbidden})
}
