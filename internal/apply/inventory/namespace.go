package inventory

import (
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
)

// Scope is whether objects of a kind are in namespaces.
type Scope int

const (
	// Unknown is the scope of a kind that the cluster does not serve yet, such as that of a custom resource whose
	// definition is in the same set.
	Unknown Scope = iota
	// Namespaced is the scope of kinds whose objects are in namespaces.
	Namespaced
	// ClusterScoped is the scope of kinds whose objects are not.
	ClusterScoped
)

// DefaultNamespace changes the namespace of a manifest to fit the scope of its kind: it sets "default" if a namespaced object
// has none, and removes the namespace of a cluster-scoped object. If the scope is not known, an object without namespace gets
// "default" too, unless it is a Namespace.
func DefaultNamespace(obj *unstructured.Unstructured, scope Scope) {
	switch {
	case scope == ClusterScoped:
		unstructured.RemoveNestedField(obj.Object, "metadata", "namespace")
	case obj.GetNamespace() != "":
	case scope == Namespaced || obj.GetKind() != namespaceKind:
		obj.SetNamespace(metav1.NamespaceDefault)
	}
}
