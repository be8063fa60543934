package fields

import (
	"slices"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/structured-merge-diff/v6/fieldpath"
)

// Additions lists the fields of live that merged lacks and that a manager other than Espalier or its peer wrote. A PUT of merged
// would remove these fields of other managers. Fields that no manager or Espalier owns are defaults of the server. Additions
// leaves out metadata, status and whole list items; a comparison of values finds the latter. The result is sorted.
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
			found = append(found, additionsBelow(nil, element, below, live, merged)...)
		}
	}
	slices.SortFunc(found, fieldpath.Path.Compare)
	return slices.CompactFunc(found, fieldpath.Path.Equals)
}

func additionsBelow(path fieldpath.Path, element fieldpath.PathElement, owned *fieldpath.Set, live, merged any) []fieldpath.Path {
	liveChild, ok := Child(live, element)
	if !ok || isEmpty(liveChild) {
		return nil
	}
	mergedChild, ok := Child(merged, element)
	path = append(slices.Clip(path), element)
	if !ok {
		if element.FieldName != nil {
			return []fieldpath.Path{path}
		}
		return nil
	}
	var found []fieldpath.Path
	for next, below := range elements(owned) {
		found = append(found, additionsBelow(path, next, below, liveChild, mergedChild)...)
	}
	return found
}
