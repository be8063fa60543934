package managedresource

import (
	_ "embed" // for the manifests
	"encoding/base64"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"sync"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/yaml"

	"github.com/espalier-dev/espalier/api/managedresources"
	resourcesv1alpha1 "github.com/espalier-dev/espalier/api/resources/v1alpha1"
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
	managedResourceKind = resourcesv1alpha1.SchemeGroupVersion.WithKind("ManagedResource")
	deploymentKind      = appsv1.SchemeGroupVersion.WithKind("Deployment")
	configMapKind       = corev1.SchemeGroupVersion.WithKind("ConfigMap")
)

func namespaceOf(run string, set int) string { return fmt.Sprintf("bench-%s-%03d", run, set) }

func setName(set int) string { return fmt.Sprintf("set-%03d", set) }

// itemsOf returns the objects of one set in its namespace. data is the value of the changing ConfigMap.
func itemsOf(run string, set, objects int, data string) []*unstructured.Unstructured {
	items := make([]*unstructured.Unstructured, 0, objects)
	for place := range objects {
		items = append(items, itemOf(run, set, place, data))
	}
	return items
}

// itemOf returns the object at that place of a set.
func itemOf(run string, set, place int, data string) *unstructured.Unstructured {
	says := dataBefore
	if place == changingConfigMap {
		says = data
	}
	name := fmt.Sprintf("part-%03d", place)
	o := template(min(place%objectsPerTemplate, len(managedKinds())-1), name, says) // the last three of ten are ConfigMaps
	o.SetNamespace(namespaceOf(run, set))
	o.SetName(name)
	o.SetLabels(map[string]string{runLabel: run, "app.kubernetes.io/name": "part", "app.kubernetes.io/instance": setName(set)})
	return o
}

//go:embed objects.yaml
var manifests string

// templates are the objects of the manifests in JSON, and their kinds. The manifests are valid, as a test shows.
var templates = sync.OnceValues(func() (all []string, kinds []schema.GroupVersionKind) {
	fixed := strings.NewReplacer("$TOKEN", base64.StdEncoding.EncodeToString([]byte(strings.Repeat("benchmark ", 20))),
		"$SETTINGS", strconv.Quote(strings.Repeat("some: setting\n", 20)))
	objects, _ := local.ParseManifests([]byte(fixed.Replace(manifests)))
	for _, each := range objects {
		text, _ := each.MarshalJSON()
		all, kinds = append(all, string(text)), append(kinds, each.GroupVersionKind())
	}
	return all, kinds
})

// managedKinds returns the kinds of the objects of every set.
func managedKinds() []schema.GroupVersionKind {
	_, kinds := templates()
	return kinds
}

// template returns the object of the kind at that place of managedKinds.
func template(kind int, name, data string) *unstructured.Unstructured {
	all, _ := templates()
	o := &unstructured.Unstructured{}
	_ = o.UnmarshalJSON([]byte(strings.NewReplacer("$NAME", name, "$DATA", data).Replace(all[kind])))
	return o
}

// secretData returns the only value of a set's Secret: all its objects as YAML documents.
func secretData(items []*unstructured.Unstructured) (data []byte) {
	for _, each := range items {
		document, _ := yaml.Marshal(each.Object) // it was read from JSON
		data = append(append(data, "---\n"...), document...)
	}
	return data
}

// setOf returns the Secret and the ManagedResource of a set.
func setOf(namespace string, set int, data []byte) (*corev1.Secret, *resourcesv1alpha1.ManagedResource) {
	m := metav1.ObjectMeta{Namespace: namespace, Name: setName(set)}
	managedResource := &resourcesv1alpha1.ManagedResource{ObjectMeta: m}
	managedResource.Spec.SecretRefs = []corev1.LocalObjectReference{{Name: m.Name}}
	return &corev1.Secret{ObjectMeta: m, Type: corev1.SecretTypeOpaque, Data: map[string][]byte{manifestKey: data}}, managedResource
}

// deleteOptions returns the same options for the bare client as the controller uses: workloads are deleted in the foreground, after their
// dependents.
func deleteOptions(o *unstructured.Unstructured) []client.DeleteOption {
	if o.GroupVersionKind().Group == appsv1.GroupName {
		return []client.DeleteOption{client.PropagationPolicy(metav1.DeletePropagationForeground)}
	}
	return nil
}

// isManaged reports whether a request was about objects of the sets: of their kinds, and not in the namespace of the Secrets that describe
// them. A request for a kind in all namespaces counts.
func isManaged(r harness.Request) bool {
	return r.ObjectRef.Namespace != sourceNamespace && slices.ContainsFunc(managedKinds(), func(kind schema.GroupVersionKind) bool {
		resource, _ := meta.UnsafeGuessKindToResource(kind)
		return resource.Group == r.ObjectRef.APIGroup && resource.Resource == r.ObjectRef.Resource
	})
}

func describe(o *unstructured.Unstructured) string {
	return fmt.Sprintf("%s %s/%s", o.GetKind(), o.GetNamespace(), o.GetName())
}

// applied returns the checksum that the set was applied with, or "" while it is not applied.
func applied(set *resourcesv1alpha1.ManagedResource) string {
	if managedresources.CheckApplied(set) != nil {
		return ""
	}
	return ptr.Deref(set.Status.SecretsDataChecksum, "")
}
