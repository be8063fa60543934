package prometheus

import (
	"fmt"

	corev1 "k8s.io/api/core/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/yaml"

	"github.com/espalier-dev/espalier/api/references"
	"github.com/espalier-dev/espalier/internal/garden/component"
	"github.com/espalier-dev/espalier/internal/garden/component/network"
	"github.com/espalier-dev/espalier/internal/garden/component/object"
	"github.com/espalier-dev/espalier/internal/garden/component/observability"
	"github.com/espalier-dev/espalier/internal/garden/values"
)

// cortex is a proxy in front of the instance longterm, which splits queries about long times and keeps their results in memory.
const (
	cortex     = "cortex"
	cortexPort = 9091
	// cortexServicePort is the port of the Service for queries through the proxy.
	cortexServicePort = 81
	// cortexCache is how much memory the kept results take at most. The proxy requests 300Mi. In Gardener the limit is the size of the volume.
	cortexCache = "200MB"

	cortexFile   = "config.yaml"
	cortexFolder = "/etc/cortex"
)

// LongtermObjects returns the objects of the instance longterm.
func LongtermObjects(v values.Values) ([]client.Object, error) {
	image, err := v.ExternalImage(program)
	if err != nil {
		return nil, err
	}
	proxy, err := v.ExternalImage(cortex)
	if err != nil {
		return nil, err
	}
	content, err := yaml.Marshal(cortexConfig())
	if err != nil {
		return nil, fmt.Errorf("encode configuration of %s: %w", cortex, err)
	}
	health, err := healthRule(v, observability.Longterm)
	if err != nil {
		return nil, err
	}
	of := instance(image, observability.Longterm)
	config := of.Owner(v).UniqueConfigMap(component.PrometheusLongterm+"-"+cortex, map[string]string{cortexFile: string(content)})
	of.Size = "100Gi"
	of.PodLabels = object.Union(of.PodLabels, network.ClientsOf(fmt.Sprintf("%s-tcp-%d", component.PrometheusGarden, port)))
	of.PodAnnotations = map[string]string{references.AnnotationKey(references.KindConfigMap, config.Name): config.Name}
	of.Ports = append(of.Ports, object.ServicePort(cortex, cortexServicePort, cortexPort))
	of.Spec["retentionSize"] = "80GB"
	of.Spec["containers"] = []any{cortexContainer(proxy)}
	of.Spec["volumes"] = []any{map[string]any{"name": "cortex-config", "configMap": map[string]any{"name": config.Name}}}
	set := append(of.Objects(v), accountOf(v, of)...)
	return append(set, config, health,
		federation(v),
		server(v, observability.Longterm, program, port, keptOfServer),
		server(v, observability.Longterm, cortex, cortexPort,
			"cortex_cache_.+|cortex_query_frontend_.+|cortex_request_duration_seconds_.+|"+ofProcess),
	), nil
}

func cortexContainer(image string) map[string]any {
	return map[string]any{
		"name": cortex, "image": image, "imagePullPolicy": string(corev1.PullIfNotPresent),
		"args":      []any{"-config.file=" + cortexFolder + "/" + cortexFile},
		"ports":     []any{map[string]any{"name": cortex, "containerPort": int64(cortexPort), "protocol": string(corev1.ProtocolTCP)}},
		"resources": map[string]any{"requests": map[string]any{"cpu": "100m", "memory": "300Mi"}},
		"securityContext": map[string]any{
			"allowPrivilegeEscalation": false, "readOnlyRootFilesystem": true, "capabilities": map[string]any{"drop": []any{"ALL"}},
		},
		"volumeMounts": []any{map[string]any{"name": "cortex-config", "mountPath": cortexFolder, "readOnly": true}},
	}
}

func cortexConfig() map[string]any {
	return map[string]any{
		"target": "query-frontend", "auth_enabled": false, "http_prefix": "", "api": map[string]any{"response_compression_enabled": true},
		"server":   map[string]any{"http_listen_port": cortexPort},
		"frontend": map[string]any{"downstream_url": fmt.Sprintf("http://localhost:%d", port)},
		"query_range": map[string]any{
			"split_queries_by_interval": "24h", "align_queries_with_step": true, "cache_results": true,
			"results_cache": map[string]any{"cache": map[string]any{
				"enable_fifocache": true, "fifocache": map[string]any{"max_size_bytes": cortexCache, "validity": "168h"},
			}},
		},
	}
}

// federation makes the instance copy from the instance garden those series that describe the state of the Garden over months.
func federation(v values.Values) client.Object {
	return observability.ScrapeConfig(v, observability.Longterm, component.PrometheusGarden, map[string]any{
		"staticConfigs": []any{map[string]any{
			"targets": []any{fmt.Sprintf("%s:%d", object.ServiceHost(v.Namespace, component.PrometheusGarden), servicePort)},
		}},
		"metricsPath": "/federate", "honorLabels": true, "honorTimestamps": false,
		"params": map[string]any{"match[]": []any{
			`{__name__=~"garden_shoot_(info|condition|node_info|operation_states)"}`,
			`{__name__=~"garden_(projects_status|users_total|managed_seed_info)"}`,
			`{__name__=~"garden_seed_(info|condition|capacity|usage)"}`,
			`{__name__="garden_garden_condition"}`,
			`{__name__="garden_extension_condition"}`,
			`{__name__=~"metering:.+"}`,
			`{__name__="ALERTS",alertstate="firing"}`,
			`{__name__="probe_success"}`,
			`{__name__=~"espalier_garden_(condition_since|last_success)_timestamp_seconds"}`,
			`{__name__=~"espalier_project_(projects|stale)"}`,
			`{__name__=~"etcd_mvcc_db_total_size_in_bytes|etcd_server_quota_backend_bytes"}`,
			`{__name__=~"etcdbr_snapshot_latest_timestamp"}`,
		}},
		"relabelings": []any{observability.SetLabel("job", component.PrometheusGarden)},
	})
}
