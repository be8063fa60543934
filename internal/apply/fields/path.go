package fields

import (
	"fmt"
	"iter"
	"reflect"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/structured-merge-diff/v6/fieldpath"
)

// parse reads the fields of an entry; ok is false if they cannot be read. An entry without fields owns nothing.
func parse(entry metav1.ManagedFieldsEntry) (owned *fieldpath.Set, ok bool) {
	owned = &fieldpath.Set{}
	if entry.FieldsV1 == nil {
		return owned, true
	}
	if err := owned.FromJSON(entry.FieldsV1.GetRawReader()); err != nil {
		return &fieldpath.Set{}, false
	}
	return owned, true
}

// parsed is like parse, but returns an empty set if the fields cannot be read.
func parsed(entry metav1.ManagedFieldsEntry) *fieldpath.Set {
	owned, _ := parse(entry)
	return owned
}

// descend returns the set of fields that are owned below an element. The set is nil if the element is owned and nothing below
// it: it is a leaf, an atomic value, or an empty map or list.
func descend(owned *fieldpath.Set, element fieldpath.PathElement) (below *fieldpath.Set, found bool) {
	if below, found = owned.Children.Get(element); found {
		return below, true
	}
	return nil, owned.Members.Has(element)
}

// inMetadata returns the set of owned fields in the labels (part "labels") or annotations (part "annotations") of an object.
func inMetadata(owned *fieldpath.Set, part string) *fieldpath.Set {
	return owned.WithPrefix(fieldpath.FieldNameElement("metadata")).WithPrefix(fieldpath.FieldNameElement(part))
}

// keysOf returns the keys of the labels or annotations that an entry owns.
func keysOf(entry metav1.ManagedFieldsEntry, part string) []string {
	keys := []string{}
	for element := range elements(inMetadata(parsed(entry), part)) {
		if element.FieldName != nil {
			keys = append(keys, *element.FieldName)
		}
	}
	return keys
}

// elements iterates over the owned elements of a set, which may be nil, and the sets below them (see descend). It copies Children first,
// because the iterator of Children cannot be stopped.
func elements(owned *fieldpath.Set) iter.Seq2[fieldpath.PathElement, *fieldpath.Set] {
	return func(yield func(fieldpath.PathElement, *fieldpath.Set) bool) {
		if owned == nil {
			return
		}
		var parents []fieldpath.PathElement
		owned.Children.Iterate(func(element fieldpath.PathElement) { parents = append(parents, element) })
		for _, element := range parents {
			below, _ := owned.Children.Get(element)
			if !yield(element, below) {
				return
			}
		}
		for element := range owned.Members.All() {
			if _, parent := owned.Children.Get(element); !parent && !yield(element, nil) {
				return
			}
		}
	}
}

// Child returns the value that a path element selects: the field of a map or the item of a list.
func Child(value any, element fieldpath.PathElement) (child any, found bool) {
	switch typed := value.(type) {
	case map[string]any:
		if element.FieldName != nil {
			child, found = typed[*element.FieldName]
		}
	case []any:
		if element.Index != nil {
			if *element.Index < 0 || *element.Index >= len(typed) {
				return nil, false
			}
			return typed[*element.Index], true
		}
		for _, item := range typed {
			if selects(element, item) {
				return item, true
			}
		}
	}
	return child, found
}

// selects reports whether a path element of a list, by key or by value, selects item. If item lacks a field of the key, this is no
// difference: the key in managedFields contains the default that the server has set for the field.
func selects(element fieldpath.PathElement, item any) bool {
	switch {
	case element.Key != nil:
		fields, isMap := item.(map[string]any)
		if !isMap {
			return false
		}
		for _, key := range *element.Key {
			if have, found := fields[key.Name]; found && !sameScalar(have, key.Value.Unstructured()) {
				return false
			}
		}
		return true
	case element.Value != nil:
		return sameScalar(item, (*element.Value).Unstructured())
	}
	return false
}

func sameScalar(a, b any) bool {
	return reflect.DeepEqual(a, b) || fmt.Sprint(a) == fmt.Sprint(b)
}
