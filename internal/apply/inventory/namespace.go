package inventory

import (
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
)

// Scope says whether objects of a kind live in namespaces.
type Scope int

const (
	// Unknown is the scope of a kind that the cluster does not serve yet, such as that of a custom resource whose
	// definition is in the same set.
	Unknown Scope = iota
	// Namespaced kinds live in namespaces.
	Namespaced
	// ClusterScoped kinds do not.
	ClusterScoped
)

// DefaultNamespace makes the namespace of a manifest fit the scope of its kind (spec 2.6): "default" where one is missing,
// none where there can be none. Where the scope is not known an object gets "default" too, unless it is a Namespace.
func DefaultNamespace(obj *unstructured.Unstructured, scope Scope) {
	switch {
	case scope == ClusterScoped:
		unstructured.RemoveNestedField(obj.Object, "metadata", "namespace")
	case obj.GetNamespace() != "":
	case scope == Namespaced || obj.GetKind() != namespaceKind:
		obj.SetNamespace(metav1.NamespaceDefault)
	}
}
