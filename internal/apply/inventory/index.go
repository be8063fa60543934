package inventory

import (
	"maps"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	resourcesv1alpha1 "github.com/espalier-dev/espalier/api/resources/v1alpha1"
)

// Index finds the references that a status holds already and tells which of them are not wanted any more. It is not safe
// for concurrent use.
type Index struct {
	references   map[Key]resourcesv1alpha1.ObjectReference
	kept         map[Key]bool
	equivalences Equivalences
}

// NewIndex indexes the references of a status. Of several with the same key the last one counts.
func NewIndex(refs []resourcesv1alpha1.ObjectReference, e Equivalences) *Index {
	index := &Index{references: make(map[Key]resourcesv1alpha1.ObjectReference, len(refs)), kept: make(map[Key]bool, len(refs)), equivalences: e}
	for _, ref := range refs {
		index.references[RefKey(ref)] = ref
	}
	return index
}

// Lookup returns the reference that the status has for an object: that of the same key, otherwise the first one of an
// equivalent kind with the same namespace and name.
//
// It marks what it finds as kept, and the references of all equivalent kinds with it. They stand for the same live
// object: a status that was written in the middle of a move from one group to the other names both, and taking the
// old one for obsolete would delete the object that the new one wants. For the same reason the result has the labels and
// annotations of all of them: only the old one may tell that a label which is to go was ours.
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
		prev.Labels, prev.Annotations = joined(prev.Labels, reference.Labels), joined(prev.Annotations, reference.Annotations)
	}
	return prev, found
}

// joined adds to one map what only the other one has.
func joined(one, other map[string]string) map[string]string {
	if len(other) == 0 {
		return one
	}
	all := maps.Clone(other)
	maps.Copy(all, one)
	return all
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
