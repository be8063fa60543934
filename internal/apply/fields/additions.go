package fields

import (
	"slices"
	"strings"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// Additions lists the fields of live that merged lacks and that a manager other than Espalier or its peer wrote: what
// a PUT of merged would take away from somebody. Fields that nobody or we ourselves hold are defaults of the server.
// Metadata and status are left out, as are whole list items (comparing values finds those). The result is sorted.
func Additions(entries []metav1.ManagedFieldsEntry, live, merged map[string]any) []string {
	var found []string
	for _, entry := range entries {
		if ours(entry) || entry.Manager == PeerManager || entry.Subresource == statusSubresource {
			continue
		}
		for element, child := range parse(entry) {
			if element == "f:metadata" || element == "f:status" {
				continue
			}
			found = append(found, additionsBelow(nil, element, child, live, merged)...)
		}
	}
	slices.Sort(found)
	return slices.Compact(found)
}

func additionsBelow(path []string, element string, owned tree, live, merged any) []string {
	liveChild, ok := child(live, element)
	if !ok || empty(liveChild) {
		return nil
	}
	mergedChild, ok := child(merged, element)
	path = append(slices.Clone(path), strings.TrimPrefix(element, "f:"))
	if !ok {
		if strings.HasPrefix(element, "f:") {
			return []string{strings.Join(path, ".")}
		}
		return nil
	}
	var found []string
	for next, below := range owned {
		if next != "." {
			found = append(found, additionsBelow(path, next, below, liveChild, mergedChild)...)
		}
	}
	return found
}

// child finds what a path element stands for below value.
func child(value any, element string) (any, bool) {
	switch typed := value.(type) {
	case map[string]any:
		found, ok := typed[strings.TrimPrefix(element, "f:")]
		return found, ok && strings.HasPrefix(element, "f:")
	case []any:
		for _, item := range typed {
			if matches(element, item) {
				return item, true
			}
		}
	}
	return nil, false
}
