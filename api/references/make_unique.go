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

// MakeUnique makes a ConfigMap or a Secret immutable, and gives it a name that depends on its content. It sets the field immutable,
// appends the first eight hex digits of the content's checksum to the name (after a "-", unless the name ends in one), and labels the
// object for the garbage collector. Call it once for each object, when its content is complete.
//
// The checksum covers the values of the content in the order of their keys. It covers neither the keys nor the binary data of a ConfigMap.
// If only a key is renamed and the order of the values stays the same, the name stays the same, and the API server refuses the update of
// the existing object. For other types, MakeUnique returns an error.
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

// MakeSecretUnique is MakeUnique for a Secret. It treats stringData as data, as the API server does.
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

// uniqueName returns name with a checksum of the values. It hashes every value separately and then the hashes: otherwise the name would not
// change if bytes moved from one value to the next one.
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

// withCollectableLabel returns a copy with the label for the garbage collector, because callers often use one map of labels for several
// objects.
func withCollectableLabel(shared map[string]string) map[string]string {
	return labels.Merge(shared, labels.Set{resourcesv1alpha1.GarbageCollectableReference: "true"})
}
