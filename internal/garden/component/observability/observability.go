// Package observability returns the parts that the observability components share.
package observability

import (
	"time"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"sigs.k8s.io/controller-runtime/pkg/client"

	operatorv1alpha1 "github.com/espalier-dev/espalier/api/operator/v1alpha1"
	"github.com/espalier-dev/espalier/internal/garden/component"
	"github.com/espalier-dev/espalier/internal/garden/component/judgement"
	"github.com/espalier-dev/espalier/internal/garden/component/object"
	"github.com/espalier-dev/espalier/internal/garden/values"
)

// Labels of objects, and of the Pods of components.
const (
	roleLabel  = "role"
	monitoring = "monitoring"
)

// Labels returns the labels of the objects of a component: its own labels, and role=monitoring.
func Labels(own map[string]string) map[string]string {
	return object.Union(own, map[string]string{roleLabel: monitoring})
}

// Component returns the row of a component with one ManagedResource in the runtime cluster. The names of the tasks contain the title. The
// component is deployed after the runtime plane and after the rows in the argument after. Nothing of the control plane waits for the
// component; for example, the etcds may start at the same time.
func Component(
	name, title, does string, after []string, objects func(values.Values, component.Secrets) ([]client.Object, error),
) component.Component {
	return component.Component{
		Name: name, Plane: component.Runtime, Condition: operatorv1alpha1.ObservabilityComponentsHealthy, Skippable: true,
		Deploy: component.Task{
			Name: "Deploying " + title, After: append([]string{component.RuntimeDeployed}, after...),
			Does: does + "; deletes it if the configuration of the operator skips the component",
		},
		Destroy: component.Task{Name: "Destroying " + title, After: []string{component.VirtualUnused}},
		Sets:    []component.Set{{Name: name}},
		Objects: func(v values.Values, s component.Secrets) (component.Objects, error) {
			set, err := objects(v, s)
			return component.Objects{Sets: [][]client.Object{set}}, err
		},
	}
}

// Awaited returns the row with a task that waits until the ManagedResources of the component are healthy, for at most five minutes for
// each of them. Requires are the skippable rows without which the component never becomes healthy.
func Awaited(row component.Component, requires ...string) component.Component {
	row.Ready, row.Within, row.Requires = judgement.Ready, 5*time.Minute, requires
	return row
}

// Group is the API group of prometheus-operator.
const Group = "monitoring.coreos.com"

// Kinds of prometheus-operator.
var (
	scrapeConfig   = schema.GroupVersionKind{Group: Group, Version: "v1alpha1", Kind: "ScrapeConfig"}
	serviceMonitor = schema.GroupVersionKind{Group: Group, Version: "v1", Kind: "ServiceMonitor"}
)

// Garden and Longterm are the names of the instances of Prometheus of a Garden. An instance reads the objects with a label whose key is
// SelectedBy and whose value is the name of the instance.
const (
	SelectedBy = "prometheus"
	Garden     = "garden"
	Longterm   = "longterm"
)

// Object returns an object of a kind that has no Go type in the modules that the product links.
func Object(kind schema.GroupVersionKind, owner object.Owner, name string, spec map[string]any) client.Object {
	o := &unstructured.Unstructured{Object: map[string]any{"spec": spec}}
	o.SetGroupVersionKind(kind)
	o.SetNamespace(owner.Namespace)
	o.SetName(name)
	o.SetLabels(owner.Labels)
	return o
}

// ScrapeConfig returns an object that makes an instance of Prometheus scrape targets.
func ScrapeConfig(v values.Values, instance, name string, spec map[string]any) client.Object {
	return Object(scrapeConfig, selected(v, instance), instance+"-"+name, spec)
}

// ServiceMonitor returns an object that makes an instance of Prometheus scrape the Pods of a Service.
func ServiceMonitor(v values.Values, instance, name string, spec map[string]any) client.Object {
	return Object(serviceMonitor, selected(v, instance), instance+"-"+name, spec)
}

func selected(v values.Values, instance string) object.Owner {
	return object.Owner{Namespace: v.Namespace, Labels: map[string]string{SelectedBy: instance}}
}

// Relabel returns the relabeling that sets a label to the part of another label that the first group of the regular expression matches.
func Relabel(source, regex, target string) map[string]any {
	return map[string]any{
		"action": "replace", "sourceLabels": []any{source}, "regex": regex, "replacement": "$1", "targetLabel": target,
	}
}

// SetLabel returns the relabeling that sets a label.
func SetLabel(target, value string) map[string]any {
	return map[string]any{"action": "replace", "replacement": value, "targetLabel": target}
}

// KeyOf returns a reference to a key of a Secret, for an object of prometheus-operator.
func KeyOf(secret, key string) map[string]any { return map[string]any{"name": secret, "key": key} }

// Keep returns the relabeling that keeps only the metrics whose name matches the regular expression.
func Keep(names string) map[string]any {
	return map[string]any{"action": "keep", "regex": "^(" + names + ")$", "sourceLabels": []any{"__name__"}}
}
