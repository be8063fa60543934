package kubestatemetrics

import (
	"strings"

	"github.com/espalier-dev/espalier/internal/garden/component/object"
)

const (
	operatorGroup = "operator.gardener.cloud"

	autoscalerPrefix = "kube_customresource_verticalpodautoscaler"
	gardenPrefix     = "garden"
)

// list is a list in a configuration file.
type list = []any

// metric is the metric of a custom resource in the configuration file of kube-state-metrics. The prefix of the resource precedes the name.
type metric struct {
	name, help string
	// kind is the type of the metric, and section the name of the section with its settings.
	kind, section string
	settings      map[string]any
	// labels are labels with constant values.
	labels map[string]any
}

func (m metric) config() map[string]any {
	config := map[string]any{"name": m.name, "help": m.help, "each": map[string]any{"type": m.kind, m.section: m.settings}}
	if m.labels != nil {
		config["commonLabels"] = m.labels
	}
	return config
}

// customResources returns the custom resources with their metrics.
func customResources() list {
	autoscaler := resource(autoscalerPrefix, object.AutoscalerKind.Group, object.AutoscalerKind.Version, object.AutoscalerKind.Kind,
		autoscalerMetrics())
	autoscaler["labelsFromPath"] = map[string]any{
		"verticalpodautoscaler": list{"metadata", "name"}, "namespace": list{"metadata", "namespace"},
		"target_api_version": list{"spec", "targetRef", "apiVersion"}, "target_kind": list{"spec", "targetRef", "kind"},
		"target_name": list{"spec", "targetRef", "name"},
	}
	all := append(make(list, 0, 3), autoscaler)
	for _, each := range []struct {
		kind    string
		metrics []metric
	}{{"Garden", gardenMetrics()}, {"Extension", extensionMetrics()}} {
		own := resource(gardenPrefix, operatorGroup, "v1alpha1", each.kind, each.metrics)
		own["labelsFromPath"] = map[string]any{"name": list{"metadata", "name"}}
		all = append(all, own)
	}
	return all
}

func resource(prefix, group, version, kind string, metrics []metric) map[string]any {
	configs := make(list, 0, len(metrics))
	for _, each := range metrics {
		configs = append(configs, each.config())
	}
	return map[string]any{
		"groupVersionKind": map[string]any{"group": group, "version": version, "kind": kind}, "metricNamePrefix": prefix, "metrics": configs,
	}
}

// autoscalerMetrics returns one metric for each resource of each list of resources in a VerticalPodAutoscaler, and one for its mode.
func autoscalerMetrics() []metric {
	var all []metric
	add := func(name, help, field string, path ...any) {
		for _, unit := range []struct{ resource, unit string }{{"cpu", "core"}, {"memory", "byte"}} {
			all = append(all, metric{
				name: name + "_" + strings.ToLower(field) + "_" + unit.resource, help: help + " (" + unit.resource + ")",
				kind: "Gauge", section: "gauge", labels: map[string]any{"resource": unit.resource, "unit": unit.unit},
				settings: map[string]any{
					"path": path, "labelsFromPath": map[string]any{"container": list{"containerName"}}, "valueFrom": list{field, unit.resource},
				},
			})
		}
	}
	for _, bound := range []string{"target", "lowerBound", "upperBound", "uncappedTarget"} {
		add("status_recommendation_containerrecommendations", "Recommended requests of a container: "+bound, bound,
			"status", "recommendation", "containerRecommendations")
	}
	for _, bound := range []string{"minAllowed", "maxAllowed"} {
		add("spec_resourcepolicy_containerpolicies", "Bounds of the recommendation for a container: "+bound, bound,
			"spec", "resourcePolicy", "containerPolicies")
	}
	return append(all, metric{
		name: "spec_updatepolicy_updatemode", help: "How recommendations are applied.", kind: "StateSet", section: "stateSet",
		settings: map[string]any{
			"labelName": "update_mode", "path": list{"spec", "updatePolicy", "updateMode"},
			"list": list{"Off", "Initial", "Recreate", "InPlaceOrRecreate", "InPlace", "Auto"},
		},
	})
}

func gardenMetrics() []metric {
	return []metric{conditions("garden_condition"), {
		name: "garden_last_operation", help: "State of the last operation of a Garden.", kind: "StateSet", section: "stateSet",
		settings: map[string]any{
			"path": list{"status", "lastOperation"}, "labelsFromPath": map[string]any{"last_operation": list{"type"}},
			"labelName": "state", "valueFrom": list{"state"},
			"list": list{"Pending", "Processing", "Succeeded", "Error", "Failed", "Aborted"},
		},
	}}
}

func extensionMetrics() []metric { return []metric{conditions("extension_condition")} }

func conditions(name string) metric {
	return metric{
		name: name, help: "Status of a condition.", kind: "StateSet", section: "stateSet",
		settings: map[string]any{
			"path": list{"status", "conditions"}, "labelsFromPath": map[string]any{"condition": list{"type"}},
			"labelName": "status", "valueFrom": list{"status"}, "list": list{"Progressing", "True", "False", "Unknown"},
		},
	}
}

// metrics returns the names of all metrics that the program exposes.
func metrics() []string {
	autoscaler, own := autoscalerMetrics(), append(gardenMetrics(), extensionMetrics()...)
	names := make([]string, 0, 3+len(autoscaler)+len(own))
	names = append(names, "kube_pod_container_status_restarts_total", "kube_pod_info", "kube_pod_status_phase")
	for _, each := range autoscaler {
		names = append(names, autoscalerPrefix+"_"+each.name)
	}
	for _, each := range own {
		names = append(names, gardenPrefix+"_"+each.name)
	}
	return names
}
