package fields

import (
	"strings"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/structured-merge-diff/v6/fieldpath"

	resourcesv1alpha1 "github.com/espalier-dev/espalier/api/resources/v1alpha1"
)

// Manager is the field manager under which Espalier writes managed objects.
const Manager = "espalier"

// PeerManager is the field manager of Gardener's own resource manager. It writes whole objects as we
// do, so what it holds and a manifest lacks is a default and nobody's addition. It is no proof that an object is in
// sync, though: after a take-over every object is read once.
const PeerManager = "gardener-resource-manager"

// ours tells whether an entry was written by a PUT or POST of ours: writes under our name by another operation or to
// a subresource are somebody else's.
func ours(entry metav1.ManagedFieldsEntry) bool {
	return entry.Manager == Manager && entry.Operation == metav1.ManagedFieldsOperationUpdate && entry.Subresource == ""
}

// WrittenByUs tells whether Espalier or its peer has left a trace in an object's managedFields.
func WrittenByUs(entries []metav1.ManagedFieldsEntry) bool {
	for _, entry := range entries {
		if entry.Manager == Manager || entry.Manager == PeerManager {
			return true
		}
	}
	return false
}

// Covers reports whether our own entries hold every leaf of the desired object: no other manager changed, took over or
// removed one of them since we wrote it. Of desired's metadata only labels and annotations count; status does not.
func Covers(entries []metav1.ManagedFieldsEntry, desired map[string]any) bool {
	for _, entry := range entries {
		if ours(entry) && coversObject(parsed(entry), desired) {
			return true
		}
	}
	return false
}

func coversObject(owned *fieldpath.Set, desired map[string]any) bool {
	for key, value := range desired {
		switch key {
		case "apiVersion", "kind", "status":
			continue
		case "metadata":
			metadata, _ := value.(map[string]any)
			for _, part := range []string{"labels", "annotations"} {
				keys, _ := metadata[part].(map[string]any)
				if !coversFields(at(owned, "metadata", part), keys) { // these maps are never atomic
					return false
				}
			}
			continue
		}
		if below, found := descend(owned, fieldpath.FieldNameElement(key)); !empty(value) && !found || found && !covers(below, value) {
			return false
		}
	}
	return true
}

// covers takes nil for a value that is owned as a whole.
func covers(owned *fieldpath.Set, value any) bool {
	if owned == nil || empty(value) {
		return true
	}
	switch typed := value.(type) {
	case map[string]any:
		return coversFields(owned, typed)
	case []any:
		for _, item := range typed {
			if !coversItem(owned, item) {
				return false
			}
		}
	}
	return true
}

func coversFields(owned *fieldpath.Set, fields map[string]any) bool {
	for key, value := range fields {
		if below, found := descend(owned, fieldpath.FieldNameElement(key)); !empty(value) && !found || found && !covers(below, value) {
			return false
		}
	}
	return true
}

// coversItem finds an element of an owned list that selects item and covers it.
func coversItem(owned *fieldpath.Set, item any) bool {
	for element, below := range elements(owned) {
		if selects(element, item) && covers(below, item) {
			return true
		}
	}
	return false
}

// empty is true for what an API server does not store: null, and maps and lists without content.
func empty(value any) bool {
	switch typed := value.(type) {
	case nil:
		return true
	case map[string]any:
		return len(typed) == 0
	case []any:
		return len(typed) == 0
	}
	return false
}

// Tolerance says which foreign labels and annotations a merge would leave alone.
type Tolerance struct {
	// ForceLabels and ForceAnnotations are the set's fields: foreign keys are removed.
	ForceLabels, ForceAnnotations bool
	// Desired is the object as it should be; foreign holders of its own keys are fine as long as Covers holds.
	Desired map[string]any
}

// OnlyTolerated tells whether entries that are neither ours nor of the status subresource hold nothing but what
// a merge keeps: finalizers, owner references, and labels and annotations of others.
func OnlyTolerated(entries []metav1.ManagedFieldsEntry, t Tolerance) bool {
	for _, entry := range entries {
		if ours(entry) || entry.Subresource == statusSubresource {
			continue
		}
		owned, readable := parse(entry)
		if !readable {
			return false
		}
		for element, below := range elements(owned) {
			if element.FieldName == nil || *element.FieldName != "metadata" || !t.metadata(below) {
				return false
			}
		}
	}
	return true
}

func (t Tolerance) metadata(owned *fieldpath.Set) bool {
	desired, _ := t.Desired["metadata"].(map[string]any)
	for element, below := range elements(owned) {
		if element.FieldName == nil {
			return false
		}
		switch *element.FieldName {
		case "finalizers", "ownerReferences":
		case "labels":
			if t.ForceLabels && !within(below, desired["labels"]) {
				return false
			}
		case "annotations":
			if t.ForceAnnotations && !within(below, desired["annotations"]) || holdsReference(below, desired["annotations"]) {
				return false
			}
		default:
			return false
		}
	}
	return true
}

func within(owned *fieldpath.Set, desired any) bool {
	keys, _ := desired.(map[string]any)
	for element := range elements(owned) {
		if element.FieldName == nil {
			return false
		}
		if _, found := keys[*element.FieldName]; !found {
			return false
		}
	}
	return true
}

// holdsReference finds reference annotations that are not desired: a merge drops them, no matter which manager wrote them.
func holdsReference(owned *fieldpath.Set, desired any) bool {
	keys, _ := desired.(map[string]any)
	for element := range elements(owned) {
		if element.FieldName == nil {
			continue
		}
		if _, found := keys[*element.FieldName]; !found && strings.HasPrefix(*element.FieldName, resourcesv1alpha1.ReferencePrefix) {
			return true
		}
	}
	return false
}
