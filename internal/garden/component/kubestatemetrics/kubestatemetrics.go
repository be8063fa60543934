// Package kubestatemetrics returns the objects of kube-state-metrics 2.19, which exposes the state of objects of the runtime cluster as
// metrics. It knows nothing of the virtual cluster.
package kubestatemetrics

import (
	"fmt"
	"strings"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/yaml"

	"github.com/espalier-dev/espalier/internal/garden/component/network"
	"github.com/espalier-dev/espalier/internal/garden/component/object"
	"github.com/espalier-dev/espalier/internal/garden/component/observability"
	"github.com/espalier-dev/espalier/internal/garden/component/pods"
	"github.com/espalier-dev/espalier/internal/garden/component/rights"
	"github.com/espalier-dev/espalier/internal/garden/component/system"
	"github.com/espalier-dev/espalier/internal/garden/values"
)

// Name is the name of the component, of its ManagedResource and of most objects. A Seed in the same cluster has objects without the suffix.
const Name = program + suffix

const (
	program = "kube-state-metrics"
	suffix  = "-runtime"
	role    = "gardener.cloud:monitoring:" + Name

	port          = 8080
	telemetryPort = 8081

	configFile = "custom-resource-state.yaml"
	configPath = "/config"
)

// Objects returns the objects of the ManagedResource.
func Objects(v values.Values) ([]client.Object, error) {
	image, err := v.ExternalImage(program)
	if err != nil {
		return nil, err
	}
	content, err := yaml.Marshal(map[string]any{"kind": "CustomResourceStateMetrics", "spec": map[string]any{"resources": customResources()}})
	if err != nil {
		return nil, fmt.Errorf("encode configuration of %s: %w", Name, err)
	}
	owner := object.Owner{Namespace: v.Namespace, Labels: map[string]string{"component": Name, "type": "seed"}}
	config := owner.UniqueConfigMap(Name+"-custom-resource-state", map[string]string{configFile: string(content)})
	return []client.Object{
		config,
		owner.ServiceAccount(Name),
		owner.ClusterRole(role, rules()...),
		owner.ClusterRoleBinding(role, role, Name),
		owner.Service(Name, object.Union(network.From(network.GardenScrapeTargets, port), network.From(network.SeedScrapeTargets, port)),
			object.ServicePort("metrics", 80, port)),
		deployment(owner, image, config.Name),
		owner.DisruptionBudget(program + "-pdb" + suffix),
		object.Autoscaler{
			Name: program + "-vpa" + suffix, Target: Name, Labels: owner.Labels, Container: program, MinAllowed: pods.Memory("32Mi"),
		}.Object(v, v.Namespace),
		scrapeConfig(v),
	}, nil
}

// resources are the resources of Kubernetes whose state the program exposes.
var resources = []string{
	"deployments", "pods", "statefulsets", "nodes", "horizontalpodautoscalers", "persistentvolumeclaims", "replicasets", "namespaces",
}

func rules() []rbacv1.PolicyRule {
	const read, watch = "list", "watch"
	return []rbacv1.PolicyRule{
		rights.Rule("", "nodes;pods;persistentvolumeclaims;namespaces", read, watch),
		rights.Rule("apps", "deployments;replicasets;statefulsets", read, watch),
		rights.Rule("autoscaling", "horizontalpodautoscalers", read, watch),
		// It finds the kinds of customResources by their definitions.
		rights.Rule("apiextensions.k8s.io", "customresourcedefinitions", read, watch),
		rights.Rule(object.AutoscalerKind.Group, "verticalpodautoscalers", read, watch),
		rights.Rule(operatorGroup, "gardens;extensions", read, watch),
	}
}

func deployment(owner object.Owner, image, config string) *appsv1.Deployment {
	var m pods.Mounts
	m.Add("custom-resource-state", configPath, true, pods.ConfigMapSource(config))
	readiness := &corev1.Probe{ProbeHandler: pods.HTTPGet("/healthz", port, ""), TimeoutSeconds: 5, PeriodSeconds: 30, FailureThreshold: 3}
	// The replicas are a fixed number. Each of them exposes everything, and Prometheus scrapes one of them.
	d := owner.Deployment(Name, 2, owner.Labels, observability.Labels(network.Clients()), corev1.PodSpec{
		ServiceAccountName: Name, PriorityClassName: system.Class100, Volumes: m.Volumes,
		Containers: []corev1.Container{{
			Name: program, Image: image, Args: args(), VolumeMounts: m.Paths, Resources: pods.Requests("10m", "32Mi"),
			Ports:          []corev1.ContainerPort{pods.ContainerPort("metrics", port)},
			StartupProbe:   pods.StartupProbe(readiness),
			LivenessProbe:  &corev1.Probe{ProbeHandler: readiness.ProbeHandler, TimeoutSeconds: 5},
			ReadinessProbe: readiness,
		}},
	})
	d.Labels = observability.Labels(d.Labels)
	object.AnnotateReferences(d)
	return d
}

func args() []string {
	all := metrics()
	exposed := make([]string, 0, len(all))
	for _, each := range all {
		exposed = append(exposed, "^"+each+"$")
	}
	return []string{
		fmt.Sprintf("--port=%d", port), fmt.Sprintf("--telemetry-port=%d", telemetryPort),
		"--resources=" + strings.Join(resources, ","),
		"--metric-labels-allowlist=nodes=[*],pods=[origin]",
		"--metric-annotations-allowlist=namespaces=[shoot.gardener.cloud/uid]",
		"--metric-allowlist=" + strings.Join(exposed, ","),
		"--custom-resource-state-config-file=" + configPath + "/" + configFile,
	}
}

// scrapeConfig makes the Prometheus of the Garden scrape the Service instead of each Pod, so that Prometheus gets each series once. Series
// of objects in the namespaces of Shoots are left out: the Prometheus of a Seed has them.
func scrapeConfig(v values.Values) client.Object {
	relabel := func(source, regex string) map[string]any {
		return map[string]any{"action": "keep", "sourceLabels": []any{source}, "regex": regex}
	}
	return observability.ScrapeConfig(v, observability.Garden, program, map[string]any{
		"kubernetesSDConfigs": []any{map[string]any{"role": "Service", "namespaces": map[string]any{"names": []any{v.Namespace}}}},
		"relabelings": []any{
			relabel("__meta_kubernetes_service_name", Name), relabel("__meta_kubernetes_service_port_name", "metrics"),
			map[string]any{"action": "replace", "targetLabel": "type", "sourceLabels": []any{"__meta_kubernetes_service_label_type"}},
			map[string]any{"action": "replace", "targetLabel": "job", "replacement": program},
			map[string]any{"action": "replace", "targetLabel": "instance", "replacement": program},
		},
		"metricRelabelings": []any{
			map[string]any{"action": "drop", "sourceLabels": []any{"namespace"}, "regex": "shoot-.*"},
			observability.Keep(strings.Join(metrics(), "|")),
		},
	})
}
