package managedresource

import (
	"context"
	_ "embed" // for the manifests
	"encoding/base64"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"sync"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/dynamic"
	"sigs.k8s.io/yaml"

	"github.com/espalier-dev/espalier/test/bench/harness"
	"github.com/espalier-dev/espalier/test/local"
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
	kinds, name := managedKinds(), fmt.Sprintf("part-%03d", place)
	kind := min(place%objectsPerTemplate, len(kinds)-1) // the last three of ten are ConfigMaps
	o := template(kind, name, says)
	o.SetNamespace(namespaceOf(run, set))
	o.SetName(name)
	o.SetLabels(map[string]string{runLabel: run, "app.kubernetes.io/name": "part", "app.kubernetes.io/instance": setName(set)})
	return item{kinds[kind], o}
}

//go:embed objects.yaml
var manifests string

// templates returns the objects of manifests in JSON.
var templates = sync.OnceValues(func() (all []string, err error) {
	fixed := strings.NewReplacer("$TOKEN", base64.StdEncoding.EncodeToString([]byte(strings.Repeat("benchmark ", 20))),
		"$SETTINGS", strconv.Quote(strings.Repeat("some: setting\n", 20)))
	objects, err := local.ParseManifests([]byte(fixed.Replace(manifests)))
	for _, each := range objects {
		text, problem := each.MarshalJSON()
		all, err = append(all, string(text)), errors.Join(err, problem)
	}
	return all, err
})

// template returns the object of the kind at that place of managedKinds. The manifests are valid, as a test shows.
func template(kind int, name, data string) *unstructured.Unstructured {
	all, _ := templates()
	o := &unstructured.Unstructured{}
	_ = o.UnmarshalJSON([]byte(strings.NewReplacer("$NAME", name, "$DATA", data).Replace(all[kind])))
	return o
}

// deploymentSpec returns the spec of the Deployment of a set.
func deploymentSpec(name string) map[string]any {
	spec, _, _ := unstructured.NestedMap(template(0, name, "").Object, "spec")
	return spec
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
func setOf(namespace string, set int, data []byte) (secret, managedResource item) {
	s := local.NewObject("v1", "Secret", namespace, setName(set), map[string]any{
		"type": "Opaque", "data": map[string]any{manifestKey: base64.StdEncoding.EncodeToString(data)},
	})
	m := local.NewObject("resources.gardener.cloud/v1alpha1", "ManagedResource", namespace, setName(set), map[string]any{
		"spec": map[string]any{"secretRefs": []any{map[string]any{"name": setName(set)}}},
	})
	return item{secrets, s}, item{managedResources, m}
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
