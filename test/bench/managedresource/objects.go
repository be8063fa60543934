package managedresource

import (
	"context"
	"encoding/base64"
	"fmt"
	"maps"
	"slices"
	"strings"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/dynamic"
	"sigs.k8s.io/yaml"

	"github.com/espalier-dev/espalier/test/bench/harness"
)

const (
	// runLabel distinguishes the controller's objects (oursRun) from the bare client's (floorRun).
	runLabel           = "bench.espalier.dev/run"
	oursRun, floorRun  = "ours", "floor"
	sourceNamespace    = "bench-sets"
	manifestKey        = "objects.yaml"
	dataKey            = "greeting"
	dataBefore         = "hello"
	dataAfter          = "good morning"
	changingConfigMap  = 9 // the place of the ConfigMap that is changed in every set
	objectsPerTemplate = 10
)

var (
	managedResources = schema.GroupVersionResource{Group: "resources.gardener.cloud", Version: "v1alpha1", Resource: "managedresources"}
	serviceAccounts  = schema.GroupVersionResource{Version: "v1", Resource: "serviceaccounts"}
	deployments      = schema.GroupVersionResource{Group: "apps", Version: "v1", Resource: "deployments"}
	replicaSets      = schema.GroupVersionResource{Group: "apps", Version: "v1", Resource: "replicasets"}
	pods             = schema.GroupVersionResource{Version: "v1", Resource: "pods"}
	configMaps       = schema.GroupVersionResource{Version: "v1", Resource: "configmaps"}
	secrets          = schema.GroupVersionResource{Version: "v1", Resource: "secrets"}
)

// managedKinds returns the resources of the objects of every set.
func managedKinds() []schema.GroupVersionResource {
	return []schema.GroupVersionResource{
		deployments,
		serviceAccounts,
		{Group: "rbac.authorization.k8s.io", Version: "v1", Resource: "roles"},
		{Group: "rbac.authorization.k8s.io", Version: "v1", Resource: "rolebindings"},
		{Version: "v1", Resource: "services"},
		secrets,
		{Group: "policy", Version: "v1", Resource: "poddisruptionbudgets"},
		configMaps,
	}
}

// item is an object of a set, and its resource.
type item struct {
	resource schema.GroupVersionResource
	object   *unstructured.Unstructured
}

// key identifies an object in the cluster.
type key struct {
	resource        schema.GroupVersionResource
	namespace, name string
}

func (i item) key() key { return key{i.resource, i.object.GetNamespace(), i.object.GetName()} }

// in returns the requests for objects of its resource and namespace.
func (i item) in(c dynamic.Interface) dynamic.ResourceInterface {
	return c.Resource(i.resource).Namespace(i.object.GetNamespace())
}

func namespaceOf(run string, set int) string { return fmt.Sprintf("bench-%s-%03d", run, set) }

func setName(set int) string { return fmt.Sprintf("set-%03d", set) }

// itemsOf returns the objects of one set in its namespace. data is the value of the changing ConfigMap.
func itemsOf(run string, set, objects int, data string) []item {
	items := make([]item, 0, objects)
	for place := range objects {
		items = append(items, itemOf(run, set, place, data))
	}
	return items
}

// itemOf returns the object at that place of a set.
func itemOf(run string, set, place int, data string) item {
	says := dataBefore
	if place == changingConfigMap {
		says = data
	}
	i := template(place%objectsPerTemplate, fmt.Sprintf("part-%03d", place), says)
	i.object.SetNamespace(namespaceOf(run, set))
	i.object.SetName(fmt.Sprintf("part-%03d", place))
	i.object.SetLabels(map[string]string{runLabel: run, "app.kubernetes.io/name": "part", "app.kubernetes.io/instance": setName(set)})
	return i
}

// template returns one of the ten objects of a set.
func template(place int, name, data string) item {
	kinds := managedKinds()
	fields := func(resource int, apiVersion, kind string, content map[string]any) item {
		content["apiVersion"], content["kind"] = apiVersion, kind
		return item{kinds[resource], &unstructured.Unstructured{Object: content}}
	}
	selector := map[string]any{"app": name}
	switch place {
	case 0:
		return fields(0, "apps/v1", "Deployment", map[string]any{"spec": deploymentSpec(selector)})
	case 1:
		return fields(1, "v1", "ServiceAccount", map[string]any{"automountServiceAccountToken": false})
	case 2:
		return fields(2, "rbac.authorization.k8s.io/v1", "Role", map[string]any{"rules": []any{
			map[string]any{"apiGroups": []any{""}, "resources": []any{"configmaps", "secrets"}, "verbs": []any{"get", "list", "watch"}},
			map[string]any{"apiGroups": []any{"coordination.k8s.io"}, "resources": []any{"leases"}, "verbs": []any{"create", "get", "update"}},
		}})
	case 3:
		return fields(3, "rbac.authorization.k8s.io/v1", "RoleBinding", map[string]any{
			"roleRef":  map[string]any{"apiGroup": "rbac.authorization.k8s.io", "kind": "Role", "name": name},
			"subjects": []any{map[string]any{"kind": "ServiceAccount", "name": name, "namespace": "default"}},
		})
	case 4:
		return fields(4, "v1", "Service", map[string]any{"spec": map[string]any{
			"clusterIP": "None", "selector": selector,
			"ports": []any{map[string]any{"name": "https", "port": int64(443), "targetPort": int64(8443), "protocol": "TCP"}},
		}})
	case 5:
		return fields(5, "v1", "Secret", map[string]any{
			"type": "Opaque", "data": map[string]any{"token": base64.StdEncoding.EncodeToString([]byte(strings.Repeat("benchmark ", 20)))},
		})
	case 6:
		return fields(6, "policy/v1", "PodDisruptionBudget", map[string]any{"spec": map[string]any{
			"maxUnavailable": int64(1), "selector": map[string]any{"matchLabels": selector},
		}})
	default:
		return fields(7, "v1", "ConfigMap", map[string]any{"data": map[string]any{
			dataKey: data, "settings.yaml": strings.Repeat("some: setting\n", 20),
		}})
	}
}

func deploymentSpec(selector map[string]any) map[string]any {
	return map[string]any{
		"replicas": int64(0),
		"selector": map[string]any{"matchLabels": selector},
		"template": map[string]any{
			"metadata": map[string]any{"labels": selector},
			"spec": map[string]any{"containers": []any{map[string]any{
				"name": "main", "image": "registry.example.com/part:v1.2.3", "args": []any{"--config=/etc/part/settings.yaml"},
				"ports":        []any{map[string]any{"name": "https", "containerPort": int64(8443), "protocol": "TCP"}},
				"resources":    map[string]any{"requests": map[string]any{"cpu": "10m", "memory": "32Mi"}},
				"volumeMounts": []any{map[string]any{"name": "settings", "mountPath": "/etc/part"}},
			}}, "volumes": []any{map[string]any{"name": "settings", "configMap": map[string]any{"name": "settings"}}}},
		},
	}
}

// secretData returns the only value of a set's Secret: all its objects as YAML documents.
func secretData(items []item) ([]byte, error) {
	var data []byte
	for _, i := range items {
		document, err := yaml.Marshal(i.object.Object)
		if err != nil {
			return nil, fmt.Errorf("render %s: %w", i.object.GetKind(), err)
		}
		data = append(append(data, "---\n"...), document...)
	}
	return data, nil
}

// setOf returns the Secret and the ManagedResource of a set.
func setOf(set int, data []byte) (secret, managedResource *unstructured.Unstructured) {
	meta := func() map[string]any {
		return map[string]any{"namespace": sourceNamespace, "name": setName(set), "labels": map[string]any{"bench": "set"}}
	}
	secret = &unstructured.Unstructured{Object: map[string]any{
		"apiVersion": "v1", "kind": "Secret", "metadata": meta(), "type": "Opaque",
		"data": map[string]any{manifestKey: base64.StdEncoding.EncodeToString(data)},
	}}
	managedResource = &unstructured.Unstructured{Object: map[string]any{
		"apiVersion": "resources.gardener.cloud/v1alpha1", "kind": "ManagedResource", "metadata": meta(),
		"spec": map[string]any{"secretRefs": []any{map[string]any{"name": setName(set)}}},
	}}
	return secret, managedResource
}

// deleteOptions returns the same options for the bare client as the controller uses: workloads are deleted in the foreground, after their
// dependents.
func deleteOptions(resource schema.GroupVersionResource) metav1.DeleteOptions {
	switch resource.Group {
	case "apps", "extensions", "batch":
		foreground := metav1.DeletePropagationForeground
		return metav1.DeleteOptions{PropagationPolicy: &foreground}
	default:
		return metav1.DeleteOptions{}
	}
}

// isManaged reports whether a request was about objects of the sets: of their kinds, and not in the namespace of the Secrets that describe
// them. A request for a kind in all namespaces counts.
func isManaged(r harness.Request) bool {
	return r.Object.Namespace != sourceNamespace && slices.ContainsFunc(managedKinds(), func(kind schema.GroupVersionResource) bool {
		return kind.Group == r.Object.APIGroup && kind.Resource == r.Object.Resource
	})
}

// object returns a small manifest.
func object(apiVersion, kind, namespace, name string, content map[string]any) *unstructured.Unstructured {
	o := &unstructured.Unstructured{Object: maps.Clone(content)}
	o.SetAPIVersion(apiVersion)
	o.SetKind(kind)
	o.SetNamespace(namespace)
	o.SetName(name)
	return o
}

func create(ctx context.Context, c dynamic.Interface, i item) error {
	if _, err := i.in(c).Create(ctx, i.object, metav1.CreateOptions{}); err != nil {
		return fmt.Errorf("create %s: %w", describe(i.object), err)
	}
	return nil
}

func remove(ctx context.Context, c dynamic.Interface, i item, o metav1.DeleteOptions) error {
	if err := i.in(c).Delete(ctx, i.object.GetName(), o); err != nil {
		return fmt.Errorf("delete %s: %w", describe(i.object), err)
	}
	return nil
}

func describe(o *unstructured.Unstructured) string {
	return fmt.Sprintf("%s %s/%s", o.GetKind(), o.GetNamespace(), o.GetName())
}

// textOf returns "" if there is no such field.
func textOf(content map[string]any, fields ...string) string {
	text, _, _ := unstructured.NestedString(content, fields...)
	return text
}

// conditionsOf returns the status of each condition of a set.
func conditionsOf(set map[string]any) map[string]string {
	found := map[string]string{}
	conditions, _, _ := unstructured.NestedSlice(set, "status", "conditions")
	for _, entry := range conditions {
		if c, ok := entry.(map[string]any); ok {
			found[textOf(c, "type")] = textOf(c, "status")
		}
	}
	return found
}

// applied returns the checksum that the set was applied with, or "" while it is not applied.
func applied(set map[string]any) string {
	observed, _, _ := unstructured.NestedInt64(set, "status", "observedGeneration")
	generation, _, _ := unstructured.NestedInt64(set, "metadata", "generation")
	if observed != generation || conditionsOf(set)["ResourcesApplied"] != "True" {
		return ""
	}
	return textOf(set, "status", "secretsDataChecksum")
}

// fileName replaces characters that are not suitable for a file name.
func fileName(text string) string {
	return strings.NewReplacer("×", "x", ", ", "-", " ", "-").Replace(text)
}
