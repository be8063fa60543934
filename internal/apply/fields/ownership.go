// Package fields reads the managedFields of an object. They show whether a client wrote more than status since the last read (Fingerprint),
// whether a live object still has the fields that Espalier wrote (Covers, OnlyTolerated), which fields other managers added (Additions),
// and which manager changed the object (Attribute).
//
// The package is pure. It does not compare values, as package merge does, and sends no requests.
package fields

import (
	"slices"
	"strings"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/sets"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/structured-merge-diff/v6/fieldpath"

	resourcesv1alpha1 "github.com/espalier-dev/espalier/api/resources/v1alpha1"
)

// Manager is the field manager under which Espalier writes managed objects.
const Manager = "espalier"

// PeerManager is the field manager of Gardener's own resource manager. Like Espalier, it writes whole objects. So a field that the peer
// owns and that a manifest lacks is a default, not an addition of another client. The entries of the peer do not prove that an object is as
// its manifest wants: after a migration from that resource manager, Espalier reads every object once.
const PeerManager = "gardener-resource-manager"

// ours reports whether a PUT or POST of Espalier wrote an entry. An entry with the name of Espalier, but with another operation or a
// subresource, comes from another client.
func ours(entry metav1.ManagedFieldsEntry) bool {
	return entry.Manager == Manager && entry.Operation == metav1.ManagedFieldsOperationUpdate && entry.Subresource == ""
}

// IsOwnName reports whether a field manager is Manager or PeerManager.
func IsOwnName(manager string) bool { return manager == Manager || manager == PeerManager }

// WrittenByUs reports whether an object's managedFields have an entry with the name Manager or PeerManager. It does not check the
// operation and the subresource of the entry.
func WrittenByUs(entries []metav1.ManagedFieldsEntry) bool {
	return slices.ContainsFunc(entries, func(entry metav1.ManagedFieldsEntry) bool { return IsOwnName(entry.Manager) })
}

// KeysOwnedOnlyByUs lists the keys of an object's labels (part "labels") or annotations (part "annotations") that Espalier owns and no
// other manager owns. A write of Espalier set these keys. If Espalier did not send a key, the server added it as a default.
func KeysOwnedOnlyByUs(entries []metav1.ManagedFieldsEntry, part string) []string {
	owned, foreign := sets.Set[string]{}, sets.Set[string]{}
	for _, entry := range entries {
		into := foreign
		if ours(entry) {
			into = owned
		}
		into.Insert(keysOf(entry, part)...)
	}
	return owned.Difference(foreign).UnsortedList()
}

// Covers reports whether an entry of Espalier owns every leaf of the desired object: no other manager changed or removed a leaf, or took
// it over, since Espalier wrote it. Of desired's metadata, Covers reads only labels and annotations, and it ignores desired's status.
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
		covered := true
		switch key {
		case "apiVersion", "kind", "status":
		case "metadata":
			metadata, _ := value.(map[string]any)
			covered = covers(inMetadata(owned, "labels"), metadata["labels"]) &&
				covers(inMetadata(owned, "annotations"), metadata["annotations"])
		default:
			covered = coversField(owned, key, value)
		}
		if !covered {
			return false
		}
	}
	return true
}

func coversField(owned *fieldpath.Set, name string, value any) bool {
	if below, found := descend(owned, fieldpath.FieldNameElement(name)); found {
		return covers(below, value)
	}
	return isEmpty(value)
}

// covers reports whether owned contains every leaf of a value. A nil set stands for ownership of the whole value.
func covers(owned *fieldpath.Set, value any) bool {
	if owned == nil {
		return true
	}
	switch typed := value.(type) {
	case map[string]any:
		for name, field := range typed {
			if !coversField(owned, name, field) {
				return false
			}
		}
	case []any:
		for _, item := range typed {
			if !coversItem(owned, item) {
				return false
			}
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
	// ForceLabels and ForceAnnotations have the values of the fields of the ManagedResource with these names. If true, a merge removes keys of
	// other managers.
	ForceLabels, ForceAnnotations bool
	// Desired is the desired object. Other managers may own its labels and annotations too, as long as Covers returns true.
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
		part := ptr.Deref(element.FieldName, "")
		switch part {
		case "finalizers", "ownerReferences":
			continue
		case "labels", "annotations":
		default:
			return false
		}
		keys, _ := desired[part].(map[string]any)
		for key := range elements(below) {
			name := ptr.Deref(key.FieldName, "")
			if _, isDesired := keys[name]; !isDesired && t.removes(part, name) {
				return false
			}
		}
	}
	return true
}

// removes reports whether a merge removes a label or annotation of another manager that is not desired. A merge removes reference
// annotations of all managers.
func (t Tolerance) removes(part, key string) bool {
	if part == "labels" {
		return t.ForceLabels
	}
	return t.ForceAnnotations || strings.HasPrefix(key, resourcesv1alpha1.ReferencePrefix)
}
