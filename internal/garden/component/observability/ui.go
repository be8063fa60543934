package observability

import (
	"fmt"
	"slices"
	"strconv"

	"github.com/espalier-dev/espalier/internal/garden/component"
	"github.com/espalier-dev/espalier/internal/garden/values"
)

// UI is a web UI of an observability component. Users reach it at https://<host>.<ingress domain> through the gateway, which asks for a
// password.
type UI struct {
	// Component is the name of the row of the component, and Requires are the rows that it needs.
	Component string
	Requires  []string
	// Host is the first label of the host.
	Host string
	// Service is the name of the Service, and Port is its port. PodPort is the port of the Pods.
	Service       string
	Port, PodPort int32
	// Certificate is the logical name of the Secret with the certificate of the host.
	Certificate string
	// Allowed is the prefix of the paths that users may request; empty: all. Refused are prefixes of paths that they may not request.
	Allowed string
	Refused []string
}

// UIs returns all web UIs.
func UIs() []UI {
	return []UI{
		{
			Component: component.PrometheusGarden, Host: "prometheus-garden", Service: "prometheus-garden", Port: 80, PodPort: 9090,
			Certificate: "prometheus-garden-tls", Requires: []string{component.PrometheusOperator},
		},
		{
			Component: component.PrometheusLongterm, Host: "prometheus-longterm", Service: "prometheus-longterm", Port: 81, PodPort: 9091,
			Certificate: "prometheus-longterm-tls", Requires: []string{component.PrometheusOperator, component.PrometheusGarden},
		},
		{
			Component: component.AlertmanagerGarden, Host: "alertmanager-garden", Service: "alertmanager-garden", Port: 9093, PodPort: 9093,
			Certificate: "alertmanager-garden-tls", Refused: []string{"/-/reload"}, Requires: []string{component.PrometheusOperator},
		},
		{
			Component: component.Plutono, Host: "plutono-garden", Service: "plutono", Port: 3000, PodPort: 3000,
			Certificate: "plutono-tls", Refused: []string{"/api/admin/"},
		},
		{
			Component: component.VictoriaLogs, Host: "victorialogs-garden", Service: "logging-vl", Port: 9428, PodPort: 9428,
			Certificate: "victorialogs-tls", Allowed: "/select/", Requires: []string{component.VictoriaOperator},
		},
	}
}

// Deploys reports whether the operator deploys a component with a web UI, by the name of its row.
func Deploys(v values.Values, name string) bool {
	return slices.ContainsFunc(UIs(), func(ui UI) bool { return ui.Component == name && ui.isDeployed(v) })
}

func (ui UI) isDeployed(v values.Values) bool {
	if v.Skips(ui.Component) || slices.ContainsFunc(ui.Requires, v.Skips) {
		return false
	}
	return ui.Component != component.VictoriaLogs || v.VictoriaLogs && !v.PodsHaveIPv6
}

// Exposed returns the web UIs that users reach through the gateway: the web UIs of components that the operator deploys. It returns none
// if the configuration of the operator skips the server that checks passwords, or skips the objects by which the gateway passes on
// requests.
func Exposed(v values.Values) []UI {
	if v.Skips(component.BasicAuthServer) || v.Skips(component.Exposure) {
		return nil
	}
	return slices.DeleteFunc(UIs(), func(ui UI) bool { return !ui.isDeployed(v) })
}

// Hidden returns a sentence which says why the web UIs that the operator deploys are not exposed, and how users reach the first of these
// web UIs. It returns "" if the web UIs are exposed, or if the operator deploys no web UI.
func Hidden(v values.Values, namespace string) string {
	all := UIs()
	i := slices.IndexFunc(all, func(ui UI) bool { return ui.isDeployed(v) })
	if i < 0 || len(Exposed(v)) > 0 {
		return ""
	}
	reason := "the configuration of the operator skips " + component.Exposure
	if v.Skips(component.BasicAuthServer) {
		reason = "the gateway cannot ask for a password"
	}
	return fmt.Sprintf("Web UIs are not exposed, because %s: use kubectl port-forward, for example kubectl -n %s port-forward service/%s %s.",
		reason, namespace, all[i].Service, all[i].forwarded())
}

// forwarded returns the argument of kubectl port-forward for the port of the Service. The local port is the port of the Pods, because
// local programs may not listen on low ports.
func (ui UI) forwarded() string {
	if ui.Port == ui.PodPort {
		return strconv.Itoa(int(ui.Port))
	}
	return fmt.Sprintf("%d:%d", ui.PodPort, ui.Port)
}

// Hosts returns the hosts of a web UI.
func (ui UI) Hosts(v values.Values) []any {
	hosts := make([]any, 0, len(v.Ingress.Domains))
	for _, domain := range v.Ingress.Domains {
		hosts = append(hosts, ui.Host+"."+domain)
	}
	return hosts
}
