package inventory

import (
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"

	resourcesv1alpha1 "github.com/espalier-dev/espalier/api/resources/v1alpha1"
)

// Index finds the references in the status of a set and returns the obsolete ones: references for which no object of the set was looked up.
// It is not safe for concurrent use.
type Index struct {
	references   map[Key]resourcesv1alpha1.ObjectReference
	kept         map[Key]bool
	equivalences Equivalences
}

// NewIndex indexes the references of a status. If several references have the same key, it uses the last one.
func NewIndex(refs []resourcesv1alpha1.ObjectReference, e Equivalences) *Index {
	index := &Index{
		references: make(map[Key]resourcesv1alpha1.ObjectReference, len(refs)), kept: make(map[Key]bool, len(refs)), equivalences: e,
	}
	for _, ref := range refs {
		index.references[RefKey(ref)] = ref
	}
	return index
}

// Lookup returns the reference to an object in the status: the one with the same key, otherwise the first one of an equivalent kind with
// the same namespace and name.
//
// It marks the found reference and the references of all equivalent kinds as kept. They refer to the same live object: a status that was
// written while the object moved from one API group to another lists both. If the old reference counted as obsolete, the controller would
// delete the object that the new reference refers to. The result has the labels and annotations of all these references, because only the
// old reference may list a label that Espalier wrote and must now remove.
func (i *Index) Lookup(k Key) (prev resourcesv1alpha1.ObjectReference, found bool) {
	prev, found = i.references[k]
	i.kept[k] = true
	for _, other := range i.equivalences.Of(metav1.GroupKind{Group: k.Group, Kind: k.Kind}) {
		key := KeyOf(other.Group, other.Kind, k.Namespace, k.Name)
		reference, isThere := i.references[key]
		if !isThere {
			continue
		}
		i.kept[key] = true
		if !found {
			prev, found = reference, true
			continue
		}
		prev.Labels, prev.Annotations = addMissing(prev.Labels, reference.Labels), addMissing(prev.Annotations, reference.Annotations)
	}
	return prev, found
}

// addMissing returns a map with the entries of both maps. If both have a key, the result has the value from the first map.
func addMissing(one, other map[string]string) map[string]string {
	if len(other) == 0 {
		return one
	}
	return labels.Merge(other, one)
}

// Obsolete returns the references that were never looked up, sorted by key.
func (i *Index) Obsolete() []resourcesv1alpha1.ObjectReference {
	var obsolete []resourcesv1alpha1.ObjectReference
	for key, ref := range i.references {
		if !i.kept[key] {
			obsolete = append(obsolete, ref)
		}
	}
	SortReferences(obsolete)
	return obsolete
}
