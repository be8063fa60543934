package opentelemetry

import (
	"fmt"

	corev1 "k8s.io/api/core/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/espalier-dev/espalier/internal/garden/component"
	"github.com/espalier-dev/espalier/internal/garden/component/network"
	"github.com/espalier-dev/espalier/internal/garden/component/object"
	"github.com/espalier-dev/espalier/internal/garden/component/observability"
	"github.com/espalier-dev/espalier/internal/garden/component/pods"
	"github.com/espalier-dev/espalier/internal/garden/component/system"
	"github.com/espalier-dev/espalier/internal/garden/component/vali"
	"github.com/espalier-dev/espalier/internal/garden/values"
)

const (
	collector   = component.OpenTelemetryCollector
	metricsPort = 8888
	grpcPort    = 4317
)

// streamFields are the attributes by which VictoriaLogs groups log lines.
const streamFields = "host.name,k8s.node.name,k8s.namespace.name,k8s.pod.name,k8s.container.name,k8s.deployment.name,k8s.daemonset.name," +
	"k8s.statefulset.name,severity,unit,origin"

// CollectorObjects returns the objects of the ManagedResource of the collector.
func CollectorObjects(v values.Values) ([]client.Object, error) {
	image, err := v.ExternalImage(collector)
	if err != nil {
		return nil, err
	}
	// The OpenTelemetry operator copies the labels and annotations of the object to Pods and Services.
	owner := object.Owner{Namespace: v.Namespace, Labels: object.Union(observability.LoggingLabels(collector), network.DNSClients(),
		network.ClientsOf(fmt.Sprintf("%s-tcp-%d", observability.ValiService, observability.ValiPort),
			fmt.Sprintf("%s-tcp-%d", observability.VictoriaLogsService, observability.VictoriaLogsPort)))}
	o := observability.Object(Kind, owner, collector, map[string]any{
		"mode": "deployment", "upgradeStrategy": "none", "replicas": int64(1), "image": image, "serviceAccount": collector,
		"priorityClassName": system.Class100, "config": config(v),
		"resources": map[string]any{"requests": map[string]any{"cpu": "10m", "memory": "64Mi"}},
		"securityContext": map[string]any{
			"allowPrivilegeEscalation": false, "readOnlyRootFilesystem": true, "capabilities": map[string]any{"drop": []any{"ALL"}},
		},
		"podSecurityContext": map[string]any{
			"runAsNonRoot": true, "runAsUser": int64(65532), "runAsGroup": int64(65532), "fsGroup": int64(65532),
			"seccompProfile": map[string]any{"type": string(corev1.SeccompProfileTypeRuntimeDefault)},
		},
	})
	o.SetAnnotations(network.From(network.GardenScrapeTargets, metricsPort))
	account := object.Owner{Namespace: v.Namespace, Labels: observability.LoggingLabels(collector)}
	return []client.Object{
		account.ServiceAccount(collector),
		o,
		object.Autoscaler{
			Name: collector, Labels: account.Labels, APIVersion: Kind.GroupVersion().String(), Kind: Kind.Kind,
			Container: observability.CollectorContainer, MinAllowed: pods.Memory("64Mi"),
		}.Object(v, v.Namespace),
		observability.ScrapeConfig(v, observability.Garden, collector, map[string]any{
			"staticConfigs": []any{map[string]any{"targets": []any{
				fmt.Sprintf("%s-monitoring.%s.svc:%d", observability.CollectorService, v.Namespace, metricsPort),
			}, "labels": map[string]any{"job": collector}}},
			"metricRelabelings": []any{observability.Keep("otelcol_.+")},
		}),
	}, nil
}

// config returns the configuration. Each store of logs has a pipeline of its own, so that a store that does not answer does not delay the
// other store.
func config(v values.Values) map[string]any {
	exporters, pipelines := map[string]any{}, map[string]any{}
	processors := map[string]any{
		"memory_limiter": map[string]any{"check_interval": "1s", "limit_mib": int64(3000), "spike_limit_mib": int64(600)},
		"batch":          map[string]any{"send_batch_size": int64(2000), "send_batch_max_size": int64(4000), "timeout": "10s"},
	}
	pipeline := func(exporter string, further ...any) map[string]any {
		return map[string]any{
			"receivers": []any{"otlp"}, "processors": append(append([]any{"memory_limiter"}, further...), "batch"), "exporters": []any{exporter},
		}
	}
	if vali.Component.Unwanted(v) == "" {
		processors["attributes/vali"] = valiAttributes()
		exporters["loki"] = map[string]any{
			"endpoint":               vali.URL(v) + "/vali/api/v1/push",
			"default_labels_enabled": map[string]any{"exporter": false, "job": false, "instance": false, "level": false},
			"retry_on_failure":       map[string]any{"enabled": true, "max_elapsed_time": "0s"},
			"sending_queue":          map[string]any{"enabled": true, "queue_size": int64(1000)},
		}
		pipelines["logs/vali"] = pipeline("loki", "attributes/vali")
	}
	if observability.Deploys(v, component.VictoriaLogs) {
		exporters["otlphttp/victorialogs"] = map[string]any{
			"logs_endpoint": observability.URL(v, observability.VictoriaLogsService, observability.VictoriaLogsPort) +
				"/insert/opentelemetry/v1/logs",
			"headers":          map[string]any{"VL-Stream-Fields": streamFields},
			"retry_on_failure": map[string]any{"enabled": true, "max_elapsed_time": "0s"},
			"sending_queue":    map[string]any{"enabled": true, "queue_size": int64(1000)},
		}
		pipelines["logs/victorialogs"] = pipeline("otlphttp/victorialogs")
	}
	return map[string]any{
		"receivers": map[string]any{"otlp": map[string]any{"protocols": map[string]any{
			"grpc": map[string]any{"endpoint": fmt.Sprintf("[::]:%d", grpcPort)},
			"http": map[string]any{"endpoint": fmt.Sprintf("[::]:%d", observability.CollectorPort)},
		}}},
		"processors": processors, "exporters": exporters,
		"service": map[string]any{
			"pipelines": pipelines,
			"telemetry": map[string]any{
				"logs": map[string]any{"level": "info", "encoding": "json"},
				"metrics": map[string]any{"level": "basic", "readers": []any{map[string]any{"pull": map[string]any{
					"exporter": map[string]any{"prometheus": map[string]any{"host": "[::]", "port": int64(metricsPort)}},
				}}}},
			},
		},
	}
}

// valiAttributes returns the processor that names the labels of log lines as fluent-bit does without a collector, so that queries of users
// stay the same.
func valiAttributes() map[string]any {
	actions := []any{}
	for _, each := range [][2]string{
		{"namespace_name", "k8s.namespace.name"},
		{"pod_name", "k8s.pod.name"},
		{"container_name", "k8s.container.name"},
		{"nodename", "k8s.node.name"},
	} {
		actions = append(actions, map[string]any{"key": each[0], "from_attribute": each[1], "action": "insert"})
	}
	return map[string]any{"actions": append(actions, map[string]any{
		"key": "loki.attribute.labels", "value": "namespace_name, pod_name, container_name, nodename, severity, unit, origin", "action": "insert",
	}, map[string]any{"key": "loki.format", "value": "raw", "action": "insert"})}
}
