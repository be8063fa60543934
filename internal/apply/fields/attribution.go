package fields

import (
	"reflect"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/structured-merge-diff/v6/fieldpath"
)

// Attribute returns the field manager that most likely caused a drift. It considers the managers other than Espalier that wrote more than
// status. Among them, it returns the manager that owns the longest part of any changed path; of several such managers, the one with the
// latest write. No manager owns a removed field. So if no manager owns a part of these paths, Attribute returns the manager with the
// latest write that is not older than Espalier's last write, or "" if there is none.
//
// The changed paths select values in live. An item of a list may have another key in a path than in managedFields (a port has a name, but
// its key in managedFields is number and protocol). Live shows which items are the same.
func Attribute(entries []metav1.ManagedFieldsEntry, live map[string]any, changed []fieldpath.Path) string {
	var last time.Time
	for _, entry := range entries {
		if ours(entry) && entry.Time != nil && entry.Time.After(last) {
			last = entry.Time.Time
		}
	}
	best := candidate{}
	for _, entry := range entries {
		if ours(entry) || entry.Subresource == statusSubresource {
			continue
		}
		next := candidate{manager: entry.Manager}
		if entry.Time != nil {
			next.at = entry.Time.Time
		}
		owned := parsed(entry)
		for _, path := range changed {
			next.depth = max(next.depth, depth(owned, path, live))
		}
		if next.depth == 0 && next.at.Before(last) {
			continue
		}
		if next.isBetterThan(best) {
			best = next
		}
	}
	return best.manager
}

// Differing returns, of the given paths, the paths at which two states of an object have different values.
func Differing(paths []fieldpath.Path, before, after map[string]any) []fieldpath.Path {
	var differing []fieldpath.Path
	for _, path := range paths {
		if !reflect.DeepEqual(valueAt(before, path), valueAt(after, path)) {
			differing = append(differing, path)
		}
	}
	return differing
}

// valueAt returns the value at a path, nil if there is none.
func valueAt(value any, path fieldpath.Path) any {
	for _, element := range path {
		value, _ = Child(value, element)
	}
	return value
}

type candidate struct {
	manager string
	depth   int
	at      time.Time
}

func (c candidate) isBetterThan(other candidate) bool {
	if c.depth != other.depth {
		return c.depth > other.depth
	}
	return other.manager == "" || c.at.After(other.at)
}

// depth returns how many elements of path, from the first one on, an entry owns. If the entry owns one of these elements and nothing below
// it, such as an atomic value, depth counts all elements of path.
func depth(owned *fieldpath.Set, path fieldpath.Path, live any) int {
	matched := 0
	for _, element := range path {
		below, found := descendByItem(owned, element, live)
		if !found {
			break
		}
		matched++
		if below == nil {
			return len(path)
		}
		owned = below
		live, _ = Child(live, element)
	}
	return matched
}

// descendByItem does the same as descend. But it also finds an element that selects an item of a list by another key than managedFields
// do: it takes the item of live that the element selects, and looks for the element in managedFields that selects the same item. If live
// has no such item, it looks for an element with the same key (see sameKey).
func descendByItem(owned *fieldpath.Set, element fieldpath.PathElement, live any) (below *fieldpath.Set, found bool) {
	if element.FieldName != nil {
		return descend(owned, element)
	}
	item, exists := Child(live, element)
	for each, below := range elements(owned) {
		if exists && selects(each, item) || !exists && sameKey(each, element) {
			return below, true
		}
	}
	return nil, false
}

// sameKey reports whether two elements that select items by key may select the same item: they have a field in common, and no
// such field differs.
func sameKey(a, b fieldpath.PathElement) bool {
	if a.Key == nil || b.Key == nil {
		return false
	}
	common := false
	for _, field := range *a.Key {
		for _, other := range *b.Key {
			if field.Name != other.Name {
				continue
			}
			if !sameScalar(field.Value.Unstructured(), other.Value.Unstructured()) {
				return false
			}
			common = true
		}
	}
	return common
}
