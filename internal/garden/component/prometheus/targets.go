package prometheus

import (
	"strings"

	rbacv1 "k8s.io/api/rbac/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/espalier-dev/espalier/internal/deployable"
	"github.com/espalier-dev/espalier/internal/garden/component/etcd"
	"github.com/espalier-dev/espalier/internal/garden/component/exposure"
	"github.com/espalier-dev/espalier/internal/garden/component/gardenerapiserver"
	"github.com/espalier-dev/espalier/internal/garden/component/istio"
	"github.com/espalier-dev/espalier/internal/garden/component/kubecontrollermanager"
	"github.com/espalier-dev/espalier/internal/garden/component/object"
	"github.com/espalier-dev/espalier/internal/garden/component/observability"
	"github.com/espalier-dev/espalier/internal/garden/values"
	secretconfig "github.com/espalier-dev/espalier/internal/secrets/config"
)

// Regular expressions for metrics that programs have from their libraries.
const (
	ofProcess     = "process_.+|go_(goroutines|gc_duration_seconds|memstats_(alloc|heap_.+|sys)_bytes)"
	ofClients     = "rest_client_requests_total|rest_client_request_duration_seconds_.+"
	ofControllers = ofProcess + "|" + ofClients + "|controller_runtime_.+|workqueue_.+|leader_election_.+"
)

// keptOfAPIServer is a regular expression for the metrics that the instance keeps of API servers, which have thousands of series.
var keptOfAPIServer = strings.Join([]string{
	ofProcess,
	"apiserver_(request_total|request_duration_seconds_.+|request_terminations_total|response_sizes_.+)",
	"apiserver_(current_inflight_requests|current_inqueue_requests|longrunning_requests|dropped_requests_total)",
	"apiserver_flowcontrol_(current_.+|rejected_requests_total|nominal_limit_seats|request_wait_duration_seconds_.+)",
	"apiserver_(storage_.+|resource_objects|resource_size_estimate_bytes|watch_events_.+|watch_cache_.+|init_events_total|cache_list_.+)",
	"apiserver_(audit_event_total|audit_error_total|crd_webhook_.+|authorization_decisions_total|tls_handshake_errors_total)",
	"apiserver_admission_(controller_admission_duration_seconds_.+|webhook_.+|step_admission_duration_seconds_.+)",
	"authentication_attempts|authenticated_user_requests|aggregator_unavailable_apiservice.*",
	"etcd_request_.+|watch_cache_.+|kubernetes_build_info|workqueue_.+|" + ofClients,
}, "|")

// monitor is a ServiceMonitor with one endpoint.
type monitor struct {
	name string
	// namespaces are the namespaces of the Services, if they are not in the namespace of the Garden.
	namespaces []any
	// labels and role select the Services. role is a list of values of the label role; nil: any value.
	labels map[string]string
	role   []any
	// endpoint describes the port. kept is a regular expression for the names of the metrics to keep.
	endpoint map[string]any
	kept     string
}

func (m monitor) object(v values.Values) client.Object {
	selector := map[string]any{"matchLabels": observability.Texts(m.labels)}
	if m.role != nil {
		selector["matchExpressions"] = []any{map[string]any{"key": "role", "operator": "In", "values": m.role}}
	}
	m.endpoint["metricRelabelings"] = []any{observability.Keep(m.kept)}
	spec := map[string]any{"selector": selector, "endpoints": []any{m.endpoint}}
	if m.namespaces != nil {
		spec["namespaceSelector"] = map[string]any{"matchNames": m.namespaces}
	}
	return observability.ServiceMonitor(v, observability.Garden, m.name, spec)
}

// targets returns the ServiceMonitors for programs of the runtime cluster and of the virtual cluster whose components have none of their
// own, and the scrape configuration for the instance itself.
func targets(v values.Values, credentials Credentials) []client.Object {
	all := []monitor{
		{
			name: "espalier", namespaces: []any{deployable.Namespace, v.Namespace}, labels: binaries(),
			endpoint: portNamed("metrics"), kept: "espalier_.+|" + ofControllers,
		},
		{
			name: "etcd-druid", labels: map[string]string{object.Role: "etcd-druid"}, endpoint: portNamed("metrics"),
			kept: "etcddruid_.+|etcd_druid_.+|" + ofControllers,
		},
		{
			name: "gardener", labels: map[string]string{"app": "gardener"}, role: []any{"admission-controller", "controller-manager", "scheduler"},
			endpoint: portNamed("metrics"), kept: "gardener_.+|admission_.+|seedauthorizer_.+|scheduler_.+|garden_.+|" + ofControllers,
		},
		{
			name: gardenerapiserver.Name, labels: gardenerapiserver.Labels(), kept: keptOfAPIServer,
			endpoint: withToken(map[string]any{
				// The port of the Service has no name.
				"targetPort": int64(gardenerapiserver.Port),
			}, credentials.Gardener, object.ServiceHost(v.Namespace, gardenerapiserver.Name)),
		},
		{
			name: exposure.Name, labels: exposure.Labels(), kept: keptOfAPIServer,
			endpoint: withToken(portNamed("kube-apiserver"), credentials.Kubernetes, object.ServiceHost(v.Namespace, exposure.Name)),
		},
		{
			name: kubecontrollermanager.Name, labels: map[string]string{"app": "kubernetes", "role": "controller-manager"},
			kept: ofProcess + "|" + ofClients + "|workqueue_.+|node_collector_.+|leader_election_.+",
			endpoint: withToken(portNamed("metrics"), credentials.Kubernetes,
				object.ServiceHost(v.Namespace, kubecontrollermanager.Name)),
		},
		{
			name: "vpa", labels: map[string]string{object.Role: "vpa"}, endpoint: portNamed("metrics"),
			kept: "vpa_.+|" + ofProcess + "|" + ofClients,
		},
		{
			name: "istiod", namespaces: []any{istio.Namespace}, labels: map[string]string{"app": "istiod"}, endpoint: portNamed("metrics"),
			kept: "pilot_.+|galley_.+|citadel_.+|istio_build|" + ofProcess,
		},
		gateway(),
	}
	objects := make([]client.Object, 0, len(all)+5)
	for _, each := range all {
		objects = append(objects, each.object(v))
	}
	for _, role := range []etcd.Role{etcd.Main, etcd.Events} {
		objects = append(objects,
			etcdMonitor(v, credentials, role, "client", "virtual-garden-etcd", "etcd_.+|grpc_server_.+|"+ofProcess).object(v),
			etcdMonitor(v, credentials, role, "backuprestore", "virtual-garden-etcd-backup", "etcdbr_.+|"+ofProcess).object(v))
	}
	return append(objects, server(v, observability.Garden, program, port, keptOfServer))
}

// portNamed returns an endpoint: a port of a Service by its name.
func portNamed(name string) map[string]any { return map[string]any{"port": name} }

// gateway returns the monitor of the gateway of Istio, whose port for metrics its Service does not have.
func gateway() monitor {
	endpoint := portNamed("tcp")
	endpoint["path"] = "/stats/prometheus"
	endpoint["relabelings"] = []any{map[string]any{
		"action": "replace", "sourceLabels": []any{"__address__"}, "regex": `(.+):\d+`, "replacement": "${1}:15090", "targetLabel": "__address__",
	}}
	return monitor{
		name: istio.Gateway, namespaces: []any{istio.GatewayNamespace}, labels: map[string]string{"app": istio.Gateway}, endpoint: endpoint,
		kept: "istio_(requests_total|request_duration_milliseconds_.+|tcp_.+)|envoy_listener_downstream_cx_(active|total)|" +
			"envoy_cluster_upstream_(cx_active|cx_connect_fail|cx_total|rq_total)|envoy_server_memory_allocated",
	}
}

// withToken makes an endpoint use TLS, and the token of the instance for the virtual cluster. The server must have the name host.
func withToken(endpoint map[string]any, authority, host string) map[string]any {
	endpoint["scheme"] = "https"
	endpoint["authorization"] = map[string]any{"credentials": observability.KeyOf(AccessSecret, "token")}
	endpoint["tlsConfig"] = map[string]any{
		"serverName": host, "ca": map[string]any{"secret": observability.KeyOf(authority, secretconfig.DataKeyCertificateBundle)},
	}
	return endpoint
}

// etcdMonitor returns the monitor of a port of the Service that etcd-druid makes for the clients of an etcd.
func etcdMonitor(v values.Values, credentials Credentials, role etcd.Role, servicePort, job, kept string) monitor {
	endpoint := portNamed(servicePort)
	endpoint["scheme"] = "https"
	endpoint["tlsConfig"] = map[string]any{
		"serverName": object.ServiceHost(v.Namespace, role.Name()+"-client"),
		"ca":         map[string]any{"secret": observability.KeyOf(credentials.ETCD, secretconfig.DataKeyCertificateBundle)},
		"cert":       map[string]any{"secret": observability.KeyOf(credentials.ETCDClient, secretconfig.DataKeyCertificate)},
		"keySecret":  observability.KeyOf(credentials.ETCDClient, secretconfig.DataKeyPrivateKey),
	}
	endpoint["relabelings"] = []any{observability.SetLabel("job", job), observability.SetLabel("role", string(role))}
	return monitor{
		name: strings.Replace(job, "etcd", "etcd-"+string(role), 1), kept: kept, endpoint: endpoint,
		labels: map[string]string{"app.kubernetes.io/component": "etcd-client-service", "app.kubernetes.io/part-of": role.Name()},
	}
}

// nodes returns the scrape configurations for metrics of containers and volumes of the Garden. The API server passes the requests on to the
// kubelets, for which NetworkPolicies have no label.
func nodes(v values.Values) []any {
	const account = "/var/run/secrets/kubernetes.io/serviceaccount/"
	job := func(name, path, kept string) map[string]any {
		return map[string]any{
			"job_name": name, "scheme": "https", "honor_timestamps": false,
			"tls_config":            map[string]any{"ca_file": account + "ca.crt"},
			"authorization":         map[string]any{"type": "Bearer", "credentials_file": account + "token"},
			"kubernetes_sd_configs": []any{map[string]any{"role": "node"}},
			"relabel_configs": []any{
				map[string]any{"target_label": "__address__", "replacement": "kubernetes.default.svc:443"},
				map[string]any{
					"source_labels": []any{"__meta_kubernetes_node_name"}, "regex": "(.+)", "target_label": "__metrics_path__",
					"replacement": "/api/v1/nodes/${1}/proxy/metrics" + path,
				},
				map[string]any{"source_labels": []any{"__meta_kubernetes_node_name"}, "target_label": "node"},
			},
			"metric_relabel_configs": []any{
				map[string]any{"source_labels": []any{"__name__"}, "action": "keep", "regex": "^(" + kept + ")$"},
				map[string]any{
					"source_labels": []any{"namespace"}, "action": "keep",
					"regex": strings.Join([]string{v.Namespace, deployable.Namespace, istio.Namespace, istio.GatewayNamespace}, "|"),
				},
			},
		}
	}
	return []any{
		job("cadvisor", "/cadvisor", "container_cpu_(usage_seconds|cfs_periods|cfs_throttled_periods)_total|"+
			"container_memory_(working_set_bytes|rss)|container_spec_memory_limit_bytes|"+
			"container_fs_(reads_total|writes_total|usage_bytes|limit_bytes)|container_network_(receive|transmit)_bytes_total"),
		job("kubelet", "", "kubelet_volume_stats_(available_bytes|capacity_bytes|used_bytes|inodes|inodes_free|inodes_used)"),
	}
}

// metricsRule lets the instance read metrics of servers that ask the API server of the virtual cluster about rights.
func metricsRule() rbacv1.PolicyRule {
	return rbacv1.PolicyRule{NonResourceURLs: []string{"/metrics"}, Verbs: []string{"get"}}
}
