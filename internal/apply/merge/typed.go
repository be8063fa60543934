package merge

import (
	apiextensionsscheme "k8s.io/apiextensions-apiserver/pkg/client/clientset/clientset/scheme"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	kubernetesscheme "k8s.io/client-go/kubernetes/scheme"
	aggregatorscheme "k8s.io/kube-aggregator/pkg/client/clientset_generated/clientset/scheme"
)

// throughType converts an object to the Go type of its kind and back. It returns false if the Kubernetes libraries do not have the kind, or
// if the object does not fit the type.
func throughType(object map[string]any) (map[string]any, bool) {
	apiVersion, _ := object["apiVersion"].(string)
	kind, _ := object["kind"].(string)
	typed := newTyped(schema.FromAPIVersionAndKind(apiVersion, kind))
	if typed == nil {
		return nil, false
	}
	if err := runtime.DefaultUnstructuredConverter.FromUnstructured(object, typed); err != nil {
		return nil, false
	}
	result, err := runtime.DefaultUnstructuredConverter.ToUnstructured(typed)
	return result, err == nil
}

// Knows reports whether the Kubernetes libraries have a Go type for a kind.
func Knows(kind schema.GroupVersionKind) bool { return newTyped(kind) != nil }

// newTyped returns an empty object of a kind, nil if the kind is not known.
func newTyped(gvk schema.GroupVersionKind) runtime.Object {
	for _, scheme := range []*runtime.Scheme{kubernetesscheme.Scheme, apiextensionsscheme.Scheme, aggregatorscheme.Scheme} {
		if typed, err := scheme.New(gvk); err == nil {
			return typed
		}
	}
	return nil
}
