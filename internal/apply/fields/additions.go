package fields

import (
	"reflect"
	"slices"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/structured-merge-diff/v6/fieldpath"
)

// Additions lists the fields that live has and merged lacks or has with another value, and that a manager other than Espalier or its peer
// (see PeerManager) wrote. A PUT of merged would remove these additions. Additions does not list fields that no manager owns, or that only
// Espalier owns: such a field is a default of the server.
//
// managedFields do not show the contents of an atomic value, of an empty one, or of one of several list items with the same key. In such a
// value every difference is listed, also a field that only merged has or a default of the server. So only the answer to the PUT shows the
// caller whether there was an addition: if there was none, the resourceVersion does not change.
//
// Additions leaves out metadata, status, and whole list items that managedFields show, because a comparison of values finds such items. The
// result is sorted.
func Additions(entries []metav1.ManagedFieldsEntry, live, merged map[string]any) []fieldpath.Path {
	var found []fieldpath.Path
	for _, entry := range entries {
		if ours(entry) || entry.Manager == PeerManager || entry.Subresource == statusSubresource {
			continue
		}
		for element, below := range elements(parsed(entry)) {
			if name := element.FieldName; name == nil || *name == "metadata" || *name == "status" {
				continue
			}
			if *element.FieldName == "stringData" { // of a Secret; the API server moves it to data, but not its record of the manager
				element = fieldpath.FieldNameElement("data")
			}
			found = append(found, additionsBelow(nil, element, below, live, merged)...)
		}
	}
	slices.SortFunc(found, fieldpath.Path.Compare)
	return slices.CompactFunc(found, fieldpath.Path.Equals)
}

func additionsBelow(path fieldpath.Path, element fieldpath.PathElement, owned *fieldpath.Set, live, merged any) []fieldpath.Path {
	liveChild, ok := Child(live, element)
	if !ok || liveChild == nil {
		return nil
	}
	mergedChild, ok := Child(merged, element)
	ok = ok && mergedChild != nil // null in a manifest counts as a missing field
	path = append(slices.Clip(path), element)
	switch {
	case !ok && element.FieldName == nil:
		return nil
	case !ok, hasTwins(live, element) && !reflect.DeepEqual(selected(live, element), selected(merged, element)):
		return []fieldpath.Path{path}
	case owned == nil && isComposite(liveChild) && !reflect.DeepEqual(liveChild, mergedChild):
		return []fieldpath.Path{path}
	}
	var found []fieldpath.Path
	for next, below := range elements(owned) {
		found = append(found, additionsBelow(path, next, below, liveChild, mergedChild)...)
	}
	return found
}

// isComposite reports whether a value is a map or list. Additions leaves the comparison of other values to package merge, which first
// converts them to Go types.
func isComposite(value any) bool {
	switch value.(type) {
	case map[string]any, []any:
		return true
	}
	return false
}

// hasTwins reports whether a path element selects several items of a list. managedFields do not show which of these items was written.
func hasTwins(list any, element fieldpath.PathElement) bool {
	return element.Key != nil && len(selected(list, element)) > 1
}

// selected returns all items of a list that a path element selects.
func selected(list any, element fieldpath.PathElement) []any {
	var items []any
	all, _ := list.([]any)
	for _, item := range all {
		if selects(element, item) {
			items = append(items, item)
		}
	}
	return items
}
