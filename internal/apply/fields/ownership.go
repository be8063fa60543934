package fields

import (
	"strings"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/structured-merge-diff/v6/fieldpath"

	resourcesv1alpha1 "github.com/espalier-dev/espalier/api/resources/v1alpha1"
)

// Manager is the field manager under which Espalier writes managed objects.
const Manager = "espalier"

// PeerManager is the field manager of Gardener's own resource manager. It writes whole objects as Espalier does. So a field that
// it owns and that a manifest lacks is a default, not an addition of another client. Its entries do not prove that an object is
// in sync: after a migration from that resource manager, Espalier reads every object once.
const PeerManager = "gardener-resource-manager"

// ours reports whether a PUT or POST of Espalier wrote an entry. Writes under its name by another operation or to a subresource
// are those of other clients.
func ours(entry metav1.ManagedFieldsEntry) bool {
	return entry.Manager == Manager && entry.Operation == metav1.ManagedFieldsOperationUpdate && entry.Subresource == ""
}

// WrittenByUs reports whether an object's managedFields have an entry of Espalier or its peer.
func WrittenByUs(entries []metav1.ManagedFieldsEntry) bool {
	for _, entry := range entries {
		if entry.Manager == Manager || entry.Manager == PeerManager {
			return true
		}
	}
	return false
}

// Covers reports whether Espalier's entries own every leaf of the desired object: no other manager changed, took over or removed
// a leaf since Espalier wrote it. Covers reads only labels and annotations of desired's metadata, and ignores its status.
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
		if below, found := descend(owned, fieldpath.FieldNameElement(key)); !isEmpty(value) && !found || found && !covers(below, value) {
			return false
		}
	}
	return true
}

// covers treats a nil set as ownership of the whole value.
func covers(owned *fieldpath.Set, value any) bool {
	if owned == nil || isEmpty(value) {
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
		if below, found := descend(owned, fieldpath.FieldNameElement(key)); !isEmpty(value) && !found || found && !covers(below, value) {
			return false
		}
	}
	return true
}

// coversItem reports whether an element of an owned list selects item and covers it.
func coversItem(owned *fieldpath.Set, item any) bool {
	for element, below := range elements(owned) {
		if selects(element, item) && covers(below, item) {
			return true
		}
	}
	return false
}

// isEmpty reports whether an API server does not store a value: null, and maps and lists without content.
func isEmpty(value any) bool {
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

// Tolerance describes which labels and annotations of other managers a merge keeps.
type Tolerance struct {
	// ForceLabels and ForceAnnotations are the fields of the set: a merge removes keys of other managers.
	ForceLabels, ForceAnnotations bool
	// Desired is the desired object. Other managers may own its keys too, as long as Covers returns true.
	Desired map[string]any
}

// OnlyTolerated reports whether entries that are neither Espalier's nor of the status subresource own only fields that a merge
// keeps: finalizers, owner references, and labels and annotations of other managers.
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
			if element.FieldName == nil || *element.FieldName != "metadata" || !t.allowsMetadata(below) {
				return false
			}
		}
	}
	return true
}

func (t Tolerance) allowsMetadata(owned *fieldpath.Set) bool {
	desired, _ := t.Desired["metadata"].(map[string]any)
	for element, below := range elements(owned) {
		if element.FieldName == nil {
			return false
		}
		switch *element.FieldName {
		case "finalizers", "ownerReferences":
		case "labels":
			if t.ForceLabels && !ownsOnly(below, desired["labels"]) {
				return false
			}
		case "annotations":
			if t.ForceAnnotations && !ownsOnly(below, desired["annotations"]) || ownsUndesiredReference(below, desired["annotations"]) {
				return false
			}
		default:
			return false
		}
	}
	return true
}

func ownsOnly(owned *fieldpath.Set, desired any) bool {
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

// ownsUndesiredReference reports whether an entry owns a reference annotation that is not desired: a merge drops it, whichever
// manager wrote it.
func ownsUndesiredReference(owned *fieldpath.Set, desired any) bool {
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
