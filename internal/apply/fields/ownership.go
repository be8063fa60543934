package fields

import (
	"encoding/json"
	"fmt"
	"reflect"
	"strings"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	resourcesv1alpha1 "github.com/espalier-dev/espalier/api/resources/v1alpha1"
)

// Manager is the field manager under which Espalier writes managed objects.
const Manager = "espalier"

// PeerManager is the field manager of Gardener's own resource manager. It writes whole objects as we
// do, so what it holds and a manifest lacks is a default and nobody's addition. It is no proof that an object is in
// sync, though: after a take-over every object is read once.
const PeerManager = "gardener-resource-manager"

// tree is a parsed FieldsV1: path element to children; an element without children is owned as a whole.
type tree map[string]tree

// parse reads the fields of an entry. What cannot be read owns nothing.
func parse(entry metav1.ManagedFieldsEntry) tree {
	if entry.FieldsV1 == nil {
		return nil
	}
	var t tree
	if err := json.Unmarshal(entry.FieldsV1.GetRawBytes(), &t); err != nil {
		return nil
	}
	return t
}

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

// WrittenByUsAfter reports whether one of our own entries is younger than at. API servers record times in whole seconds.
func WrittenByUsAfter(entries []metav1.ManagedFieldsEntry, at time.Time) bool {
	for _, entry := range entries {
		if ours(entry) && entry.Time != nil && entry.Time.After(at) {
			return true
		}
	}
	return false
}

// Covers tells whether our own entries hold every leaf of the desired object: nobody changed, took over or removed
// one of them since we wrote it. Of desired's metadata only labels and annotations are looked at; status is not.
func Covers(entries []metav1.ManagedFieldsEntry, desired map[string]any) bool {
	for _, entry := range entries {
		if ours(entry) && coversObject(parse(entry), desired) {
			return true
		}
	}
	return false
}

func coversObject(owned tree, desired map[string]any) bool {
	for key, value := range desired {
		switch key {
		case "apiVersion", "kind", "status":
			continue
		case "metadata":
			metadata, _ := value.(map[string]any)
			for _, part := range []string{"labels", "annotations"} {
				if !covers(owned["f:metadata"]["f:"+part], metadata[part]) {
					return false
				}
			}
			continue
		}
		child, found := owned["f:"+key]
		if !found && !empty(value) || found && !covers(child, value) {
			return false
		}
	}
	return true
}

func covers(owned tree, value any) bool {
	if empty(value) {
		return true
	}
	if owned == nil {
		return false
	}
	switch typed := value.(type) {
	case map[string]any:
		if len(owned) == 0 {
			return true
		}
		return coversFields(owned, typed)
	case []any:
		if len(owned) == 0 {
			return true
		}
		for _, item := range typed {
			if !coversItem(owned, item) {
				return false
			}
		}
	}
	return true
}

func coversFields(owned tree, fields map[string]any) bool {
	for key, item := range fields {
		child, found := owned["f:"+key]
		if !found && !empty(item) || found && !covers(child, item) {
			return false
		}
	}
	return true
}

// coversItem looks for an element of an owned list that stands for item and covers it.
func coversItem(owned tree, item any) bool {
	for element, child := range owned {
		if matches(element, item) && covers(child, item) {
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

// matches tells whether a path element of a list (`k:{"name":"a"}` or `v:"a"`) stands for item. A key field that item
// leaves out was defaulted by the server and does not speak against it.
func matches(element string, item any) bool {
	switch {
	case strings.HasPrefix(element, "k:"):
		fields, ok := item.(map[string]any)
		if !ok {
			return false
		}
		var keys map[string]any
		if err := json.Unmarshal([]byte(element[2:]), &keys); err != nil {
			return false
		}
		for key, want := range keys {
			if have, found := fields[key]; found && !sameScalar(have, want) {
				return false
			}
		}
		return true
	case strings.HasPrefix(element, "v:"):
		var want any
		if err := json.Unmarshal([]byte(element[2:]), &want); err != nil {
			return false
		}
		return sameScalar(item, want)
	}
	return false
}

func sameScalar(a, b any) bool {
	return reflect.DeepEqual(a, b) || fmt.Sprint(a) == fmt.Sprint(b)
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
		for key, child := range parse(entry) {
			if key != "f:metadata" || !t.metadata(child) {
				return false
			}
		}
	}
	return true
}

func (t Tolerance) metadata(owned tree) bool {
	desired, _ := t.Desired["metadata"].(map[string]any)
	for part, children := range owned {
		switch part {
		case ".", "f:finalizers", "f:ownerReferences":
		case "f:labels":
			if t.ForceLabels && !within(children, desired["labels"]) {
				return false
			}
		case "f:annotations":
			if t.ForceAnnotations && !within(children, desired["annotations"]) || holdsReference(children, desired["annotations"]) {
				return false
			}
		default:
			return false
		}
	}
	return true
}

func within(owned tree, desired any) bool {
	keys, _ := desired.(map[string]any)
	for element := range owned {
		if _, found := keys[strings.TrimPrefix(element, "f:")]; !found && element != "." {
			return false
		}
	}
	return true
}

// holdsReference finds reference annotations that are not desired: a merge drops them whoever wrote them.
func holdsReference(owned tree, desired any) bool {
	keys, _ := desired.(map[string]any)
	for element := range owned {
		key := strings.TrimPrefix(element, "f:")
		if _, found := keys[key]; !found && strings.HasPrefix(key, resourcesv1alpha1.ReferencePrefix) {
			return true
		}
	}
	return false
}
