// Package fluentbit returns the objects of fluent-bit 4.2. On each node, fluent-bit reads the logs of containers and of some systemd
// units, and sends them to a collector or to vali. fluent-operator creates a DaemonSet and a configuration from some of these objects.
package fluentbit

import (
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"maps"
	"slices"

	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/espalier-dev/espalier/api/references"
	"github.com/espalier-dev/espalier/internal/garden/component"
	"github.com/espalier-dev/espalier/internal/garden/component/network"
	"github.com/espalier-dev/espalier/internal/garden/component/object"
	"github.com/espalier-dev/espalier/internal/garden/component/observability"
	"github.com/espalier-dev/espalier/internal/garden/component/rights"
	"github.com/espalier-dev/espalier/internal/garden/component/system"
	"github.com/espalier-dev/espalier/internal/garden/values"
)

// Name is the name of the component, of its ManagedResource and of the Service.
const Name = component.FluentBit

// Group is the API group of fluent-operator.
const Group = "fluentbit.fluent.io"

// Kind is the kind of the custom resource from which fluent-operator makes the DaemonSet.
var Kind = schema.GroupVersionKind{Group: Group, Version: "v1alpha2", Kind: "FluentBit"}

const (
	configName = "fluent-bit-config"
	// selection is the label of the objects that are parts of the configuration, and selected is its value.
	selection, selected = "fluentbit.gardener/type", "seed"

	metricsPort = 2020
	pluginPort  = 2021
	pluginsPath = "/fluent-bit/plugins"
	statePath   = "/var/fluentbit"
	journalPath = "/run/log/journal"
	userConfig  = "/fluent-bit/config/fluent-bit.conf"

	containers = "kubernetes.*"
	units      = "systemd.*"
)

// role is the name of the ClusterRole of fluent-bit. fluent-operator would create a ClusterRole from the field rbacRules, but it does not
// while it watches one namespace only.
const role = "gardener.cloud:logging:fluent-bit"

// rules returns the rights of fluent-bit beyond the ones that fluent-operator gives it.
func rules() []rbacv1.PolicyRule {
	return []rbacv1.PolicyRule{
		rights.Rule("extensions.gardener.cloud", "clusters", rights.Read()...),
		rights.Rule("opentelemetry.io", "opentelemetrycollectors", rights.Read()...),
	}
}

// Objects returns the objects of the ManagedResource.
func Objects(v values.Values) ([]client.Object, error) {
	owner := object.Owner{Namespace: v.Namespace, Labels: observability.LoggingLabels(Name)}
	scripts := owner.UniqueConfigMap("fluent-bit-lua-config", luaScripts(v.OpenTelemetryCollector))
	daemonSet, err := fluentBit(v, scripts.Name)
	if err != nil {
		return nil, err
	}
	objects := []client.Object{
		owner.ClusterRole(role, rules()...), owner.ClusterRoleBinding(role, role, daemonSet.GetName()),
		scripts, daemonSet, config(),
		part("ClusterInput", "tail-kubernetes", map[string]any{"tail": map[string]any{
			"tag": containers, "path": "/var/log/containers/*.log",
			"excludePath": fmt.Sprintf("*_%[1]s_fluent-bit-*.log,*_%[1]s_vali-*.log,*_%[1]s_vlsingle-*.log,*_%[1]s_%[2]s-*.log",
				v.Namespace, observability.CollectorContainer),
			"parser": "containerd-parser", "refreshIntervalSeconds": int64(10), "memBufLimit": "60MB", "skipLongLines": true,
			"db": statePath + "/flb_kube.db", "ignoredOlder": "30m", "storageType": "filesystem", "pauseOnChunksOverlimit": "on",
		}}),
		part("ClusterParser", "containerd-parser", regex(
			`^(?<time>[^ ]+) (stdout|stderr) ([^ ]*) (?<log>.*)$`, "%Y-%m-%dT%H:%M:%S.%L%z", map[string]any{"decodeFieldAs": "json log"})),
		luaFilter("01-systemd", units, scripts.Name, systemdScript, "add_time_and_systemd_attr"),
		luaFilter("02-add-tag-to-record", containers, scripts.Name, tagScript, "add_tag_to_record"),
		luaFilter("zz-modify-severity", containers, scripts.Name, severityScript, "cb_modify"),
	}
	if !v.OpenTelemetryCollector {
		return append(objects, journalToVali(v)), nil
	}
	return append(objects, toCollector(v, "opentelemetry", containers), toCollector(v, "systemd", units)), nil
}

// part returns a part of the configuration.
func part(kind, name string, spec map[string]any) client.Object {
	o := &unstructured.Unstructured{Object: map[string]any{"spec": spec}}
	o.SetGroupVersionKind(Kind.GroupVersion().WithKind(kind))
	o.SetName(name)
	o.SetLabels(map[string]string{selection: selected})
	return o
}

func config() client.Object {
	selector := map[string]any{"matchLabels": map[string]any{selection: selected}}
	o := part("ClusterFluentBitConfig", configName, map[string]any{
		"service": map[string]any{
			"flushSeconds": int64(30), "daemon": false, "logLevel": "error", "parsersFile": "/fluent-bit/config/parsers.conf", "httpServer": true,
			"httpListen": "::", "httpPort": int64(metricsPort),
			"storage": map[string]any{
				"path": statePath + "/chunks", "sync": "normal", "backlogMemLimit": "50M", "maxChunksUp": int64(200),
				"deleteIrrecoverableChunks": "on",
			},
		},
		"inputSelector": selector, "filterSelector": selector, "parserSelector": selector, "outputSelector": selector,
		"multilineParserSelector": selector,
	})
	o.SetLabels(map[string]string{"app.kubernetes.io/name": Name})
	return o
}

func luaFilter(name, match, configMap, key, function string) client.Object {
	return part("ClusterFilter", name, map[string]any{"match": match, "filters": []any{map[string]any{"lua": map[string]any{
		"script": map[string]any{"name": configMap, "key": key}, "call": function, "timeAsTable": true,
	}}}})
}

// regex returns a parser with named groups. The group time has the format.
func regex(expression, format string, decoders ...any) map[string]any {
	spec := map[string]any{"regex": map[string]any{"regex": expression, "timeKey": "time", "timeFormat": format, "timeKeep": true}}
	if len(decoders) > 0 {
		spec["decoders"] = decoders
	}
	return spec
}

// toCollector returns an output that sends records by OTLP over HTTP. fluent-bit itself has this output. It does not need the plugin of the
// image fluent-bit-plugin-installer, which is for outputs of gardenlet for the logs of Shoots. Fields of a record other than the line
// become attributes.
func toCollector(v values.Values, name, match string) client.Object {
	return part("ClusterOutput", name, map[string]any{"match": match, "retry_limit": "no_limits", "opentelemetry": map[string]any{
		"host": object.ServiceHost(v.Namespace, observability.CollectorService), "port": int64(observability.CollectorPort),
		"logsUri": "/v1/logs", "logsBodyKey": "$log", "logsBodyKeyAttributes": true, "totalLimitSize": "500M",
	}})
}

// clients returns the labels of Pods that connect to the collector, or to vali, of the garden and of Shoots.
func clients(collector bool) map[string]string {
	services := []string{"logging-tcp-3100", "all-shoots-logging-tcp-3100"}
	if collector {
		services = []string{
			fmt.Sprintf("%s-tcp-%d", observability.CollectorService, observability.CollectorPort), observability.CollectorService + "-tcp-4317",
			"all-shoots-" + observability.CollectorService + "-tcp-4317",
		}
	}
	return object.Union(network.Clients(), network.ClientsOf(services...))
}

func labels(collector bool) map[string]string {
	return object.Union(observability.LoggingLabels(Name), clients(collector))
}

// ObjectName returns the name of the object of Kind. It depends on the labels, which a DaemonSet cannot change.
func ObjectName(collector bool) string {
	all, hash := labels(collector), sha256.New()
	for _, key := range slices.Sorted(maps.Keys(all)) {
		_, _ = fmt.Fprintln(hash, key, all[key]) // a hash returns no error
	}
	return Name + "-" + hex.EncodeToString(hash.Sum(nil))[:5]
}

// fluentBit returns the object of Kind. Its Pods name the ConfigMap with the scripts in an annotation, so that the garbage collector keeps
// the ConfigMap.
func fluentBit(v values.Values, scripts string) (client.Object, error) {
	image, err := v.ExternalImage(Name)
	if err != nil {
		return nil, err
	}
	installer := "fluent-bit-to-vali"
	ports, scraped, live := []any{}, []int32{metricsPort}, probe("/", metricsPort, 120, 60)
	if v.OpenTelemetryCollector {
		installer = "fluent-bit-plugin"
	} else {
		ports, scraped = []any{map[string]any{"name": "metrics-plugin", "containerPort": int64(pluginPort), "protocol": "TCP"}},
			[]int32{metricsPort, pluginPort}
		live = probe("/healthz", pluginPort, 120, 60)
	}
	plugin, err := v.ExternalImage(installer)
	if err != nil {
		return nil, err
	}
	all := observability.Texts(labels(v.OpenTelemetryCollector))
	mount := func(name, path string) any { return map[string]any{"name": name, "mountPath": path} }
	host := func(name, path string) any {
		return map[string]any{"name": name, "hostPath": map[string]any{"path": path}}
	}
	o := observability.Object(Kind, object.Owner{Namespace: v.Namespace, Labels: labels(v.OpenTelemetryCollector)},
		ObjectName(v.OpenTelemetryCollector), map[string]any{
			"annotations":         map[string]any{references.AnnotationKey(references.KindConfigMap, scripts): scripts},
			"fluentBitConfigName": configName, "image": image, "labels": all, "priorityClassName": system.Class100,
			"command": []any{"/fluent-bit/bin/fluent-bit-watcher", "-e", pluginsPath + "/output_plugin.so", "-c", userConfig},
			"envVars": []any{map[string]any{"name": "OTEL_GO_X_OBSERVABILITY", "value": "true"}},
			"initContainers": []any{map[string]any{
				"name": "install-plugin", "image": plugin, "imagePullPolicy": string(corev1.PullIfNotPresent),
				"command": []any{"cp", "-R", "/source/plugins/.", "/plugins"}, "volumeMounts": []any{mount("plugins", "/plugins")},
			}},
			"ports": ports, "livenessProbe": live, "readinessProbe": probe("/api/v1/metrics/prometheus", metricsPort, 0, 10),
			"resources": map[string]any{
				"requests": map[string]any{"cpu": "150m", "memory": "200Mi"}, "limits": map[string]any{"memory": "1Gi"},
			},
			"tolerations": []any{
				map[string]any{"effect": "NoSchedule", "key": "node-role.kubernetes.io/master"},
				map[string]any{"effect": "NoSchedule", "key": "node-role.kubernetes.io/control-plane"},
			},
			"service": map[string]any{
				"name": Name, "labels": all, "annotations": observability.Texts(network.From(network.SeedScrapeTargets, scraped...)),
			},
			"volumes": []any{
				host("runlogjournal", journalPath), host("varfluentbit", statePath),
				map[string]any{"name": "plugins", "emptyDir": map[string]any{}},
			},
			"volumesMounts": []any{mount("runlogjournal", journalPath), mount("varfluentbit", statePath), mount("plugins", pluginsPath)},
		})
	return o, nil
}

func probe(path string, port, delay, period int64) map[string]any {
	p := map[string]any{"httpGet": map[string]any{"path": path, "port": port}, "periodSeconds": period}
	if delay > 0 {
		p["initialDelaySeconds"] = delay
	}
	return p
}
