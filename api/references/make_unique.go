package references

import (
	"fmt"
	"maps"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/runtime"

	resourcesv1alpha1 "github.com/espalier-dev/espalier/api/resources/v1alpha1"
)

// MakeUnique turns a ConfigMap or a Secret into an immutable one whose name depends on its content: it sets immutable,
// appends the first eight hex digits of the content's checksum to the name (after a "-", unless the name ends in one), and
// labels the object for the garbage collector. Call it once per object, when its content is complete. The keys of the
// content and the binary data of a ConfigMap do not enter the name: renaming a key alone leads to the same name, and the
// API server then refuses the update of the existing object. Other types are an error.
func MakeUnique(obj runtime.Object) error {
	switch o := obj.(type) {
	case *corev1.Secret:
		MakeSecretUnique(o)
	case *corev1.ConfigMap:
		MakeConfigMapUnique(o)
	default:
		return fmt.Errorf("unhandled object type %T", obj)
	}
	return nil
}

// MakeSecretUnique is MakeUnique for a Secret. String data counts as the data that the API server makes of it.
func MakeSecretUnique(secret *corev1.Secret) {
	values := make(map[string]string, len(secret.Data)+len(secret.StringData))
	for key, value := range secret.Data {
		values[key] = string(value)
	}
	maps.Copy(values, secret.StringData)

	secret.Immutable = new(true)
	secret.Name = uniqueName(secret.Name, values)
	secret.Labels = withCollectableLabel(secret.Labels)
}

// MakeConfigMapUnique is MakeUnique for a ConfigMap.
func MakeConfigMapUnique(configMap *corev1.ConfigMap) {
	configMap.Immutable = new(true)
	configMap.Name = uniqueName(configMap.Name, configMap.Data)
	configMap.Labels = withCollectableLabel(configMap.Labels)
}

// uniqueName hashes every value on its own before it hashes them together: otherwise moving bytes from one value to the
// next one would not change the name.
func uniqueName(name string, values map[string]string) string {
	var hashes strings.Builder
	for _, key := range slices.Sorted(maps.Keys(values)) {
		hashes.WriteString(fullHash(values[key]))
	}
	if !strings.HasSuffix(name, "-") {
		name += "-"
	}
	return name + shortHash(hashes.String())
}

// withCollectableLabel returns a copy with the label for the garbage collector, as callers often share one map of labels between objects.
func withCollectableLabel(shared map[string]string) map[string]string {
	return labels.Merge(shared, labels.Set{resourcesv1alpha1.GarbageCollectableReference: "true"})
}
