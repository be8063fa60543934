// Package inventory describes the objects of a set: how an object is identified, which objects count as the same, the references in the
// status (one for each object), which references are obsolete, and in which order the objects are applied and deleted. A set is a
// ManagedResource.
//
// An object that occurs twice in a set has two references. It is applied twice, in the order of the input, so the last manifest determines
// its state, and Index.Lookup returns the last reference.
package inventory

import (
	"maps"
	"slices"
	"strings"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/runtime/schema"

	resourcesv1alpha1 "github.com/espalier-dev/espalier/api/resources/v1alpha1"
)

// namespaceKind is the kind whose objects get no default namespace, even if its scope is not known.
const namespaceKind = "Namespace"

// Key identifies an object, independent of the API version.
type Key struct {
	// Group is the API group; empty for the core group.
	Group string
	// Kind is the kind.
	Kind string
	// Namespace is empty only for the kind Namespace. Other objects without a namespace, including objects of cluster-scoped kinds, count as
	// objects of the namespace "default".
	Namespace string
	// Name is the name.
	Name string
}

// KeyOf returns the key of an object. An empty namespace counts as "default" except for the kind Namespace.
func KeyOf(group, kind, namespace, name string) Key {
	if namespace == "" && kind != namespaceKind {
		namespace = metav1.NamespaceDefault
	}
	return Key{Group: group, Kind: kind, Namespace: namespace, Name: name}
}

// String returns "<group>/<kind>/<namespace>/<name>". References are sorted by it.
func (k Key) String() string {
	return k.Group + "/" + k.Kind + "/" + k.Namespace + "/" + k.Name
}

// RefKey returns the key of a referenced object. The group of a malformed apiVersion counts as empty.
func RefKey(r resourcesv1alpha1.ObjectReference) Key {
	return KeyOf(schema.FromAPIVersionAndKind(r.APIVersion, r.Kind).Group, r.Kind, r.Namespace, r.Name)
}

// Reference returns the entry for an object in the status of its set. The entry contains the apiVersion, kind, name and namespace of the
// object. Its labels are the labels of the manifest overlaid by the injected labels, which include the managed-by label. Its annotations
// are the annotations of the manifest; nil if the manifest has none. The entry shares no labels or annotations with the input.
func Reference(obj *unstructured.Unstructured, injectLabels map[string]string) resourcesv1alpha1.ObjectReference {
	reference := resourcesv1alpha1.ObjectReference{Labels: labels.Merge(obj.GetLabels(), injectLabels)}
	reference.APIVersion, reference.Kind = obj.GetAPIVersion(), obj.GetKind()
	reference.Namespace, reference.Name = obj.GetNamespace(), obj.GetName()
	if annotations := obj.GetAnnotations(); len(annotations) > 0 {
		reference.Annotations = annotations
	}
	return reference
}

// SortReferences sorts references in place, by the bytes of their keys. References with equal keys keep their order.
func SortReferences(refs []resourcesv1alpha1.ObjectReference) {
	type keyed struct {
		key       string
		reference resourcesv1alpha1.ObjectReference
	}
	sorted := make([]keyed, len(refs))
	for i, ref := range refs {
		sorted[i] = keyed{key: RefKey(ref).String(), reference: ref}
	}
	slices.SortStableFunc(sorted, func(a, b keyed) int { return strings.Compare(a.key, b.key) })
	for i := range sorted {
		refs[i] = sorted[i].reference
	}
}

// Union returns all new references and each old reference whose key no new reference has, sorted. It does not change its inputs.
func Union(oldRefs, newRefs []resourcesv1alpha1.ObjectReference) []resourcesv1alpha1.ObjectReference {
	taken := make(map[Key]bool, len(newRefs))
	union := make([]resourcesv1alpha1.ObjectReference, 0, len(oldRefs)+len(newRefs))
	for _, ref := range newRefs {
		taken[RefKey(ref)] = true
		union = append(union, ref)
	}
	for _, ref := range oldRefs {
		if !taken[RefKey(ref)] {
			union = append(union, ref)
		}
	}
	SortReferences(union)
	return union
}

// SameReferences reports whether two lists contain the same references in the same order. Nil equals empty, for the lists and
// for labels and annotations.
func SameReferences(a, b []resourcesv1alpha1.ObjectReference) bool {
	return slices.EqualFunc(a, b, func(x, y resourcesv1alpha1.ObjectReference) bool {
		return x.ObjectReference == y.ObjectReference && maps.Equal(x.Labels, y.Labels) && maps.Equal(x.Annotations, y.Annotations)
	})
}

// Scope says whether the objects of a kind are namespaced.
type Scope int

const (
	// Unknown is the scope of a kind that the cluster does not serve yet, such as a custom resource whose definition is in the same set.
	Unknown Scope = iota
	// Namespaced is the scope of kinds whose objects are in namespaces.
	Namespaced
	// ClusterScoped is the scope of kinds whose objects are in no namespace.
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
