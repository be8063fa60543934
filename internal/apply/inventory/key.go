// Package inventory says what a set of objects consists of: how objects are identified and counted as the same, what
// is written about them into the status, what became obsolete, and in which order they are applied and deleted.
//
// An object that occurs twice in a set stays twice in its references: it is applied twice, in the order of the
// input, so the last manifest wins, and the last reference is the one that Index.Lookup gives back.
package inventory

import (
	"maps"
	"slices"
	"strings"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"

	resourcesv1alpha1 "github.com/espalier-dev/espalier/api/resources/v1alpha1"
)

// namespaceKind is the kind whose objects get no default namespace, even where its scope is not known.
const namespaceKind = "Namespace"

// Key identifies an object across API versions (spec 2.7).
type Key struct {
	// Group is the API group; empty for the core group.
	Group string
	// Kind is the kind.
	Kind string
	// Namespace is never empty but for the kind Namespace: objects without one, those of cluster-scoped kinds
	// among them, count as in the namespace "default".
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

// RefKey returns the key of a referenced object. The group of an apiVersion that is malformed counts as empty.
func RefKey(r resourcesv1alpha1.ObjectReference) Key {
	return KeyOf(schema.FromAPIVersionAndKind(r.APIVersion, r.Kind).Group, r.Kind, r.Namespace, r.Name)
}

// Reference returns what the status says about an object (spec 1.3): the labels of the manifest overlaid by those that
// are injected, the managed-by label among them, and the annotations of the manifest, nil if there are none. Only
// apiVersion, kind, name and namespace identify it. Labels and annotations of the result are its own.
func Reference(obj *unstructured.Unstructured, injectLabels map[string]string) resourcesv1alpha1.ObjectReference {
	var reference resourcesv1alpha1.ObjectReference
	reference.APIVersion = obj.GetAPIVersion()
	reference.Kind = obj.GetKind()
	reference.Name = obj.GetName()
	reference.Namespace = obj.GetNamespace()
	reference.Labels = make(map[string]string, len(injectLabels))
	maps.Copy(reference.Labels, obj.GetLabels())
	maps.Copy(reference.Labels, injectLabels)
	if annotations := obj.GetAnnotations(); len(annotations) > 0 {
		reference.Annotations = annotations
	}
	return reference
}

// SortReferences sorts by key in byte order, in place. References of equal key keep their order.
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

// Union returns all new references and those old ones whose key no new one has, sorted. The inputs stay as they are.
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

// SameReferences tells whether two lists hold the same references in the same order. Nil equals empty, for the lists as
// well as for labels and annotations.
func SameReferences(a, b []resourcesv1alpha1.ObjectReference) bool {
	return slices.EqualFunc(a, b, func(x, y resourcesv1alpha1.ObjectReference) bool {
		return x.ObjectReference == y.ObjectReference && maps.Equal(x.Labels, y.Labels) && maps.Equal(x.Annotations, y.Annotations)
	})
}
