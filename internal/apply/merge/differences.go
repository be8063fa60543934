package merge

import (
	"maps"
	"slices"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"sigs.k8s.io/structured-merge-diff/v6/fieldpath"

	"github.com/espalier-dev/espalier/internal/apply/manifest"
)

// maxDifferences bounds the result of Differences. Callers check whether it is empty and show a few of them.
const maxDifferences = 64

// Differences returns the paths at which a write of merged would change live: at most 64, in a fixed order, none if the write would change
// nothing.
//
// Every value of merged must be in live. Fields of live that merged lacks were added by the API server or another client and are no
// differences, with two exceptions: Differences compares labels and annotations of the object exactly, and an additional item in a list of
// live is a difference if merged has that list.
//
// A null in merged counts as missing, and 1 equals 1.0. For kinds that the Kubernetes libraries know, Differences compares unequal values
// once more after a conversion to the Go type and back. Then quantities ("1" and "1000m"), ports as number or text, base64 with line
// breaks, empty lists, and zero values that the API server leaves out are equal. Fields that the library does not know are compared
// unconverted. The stringData of Secrets counts as data.
func Differences(live, merged *unstructured.Unstructured) []fieldpath.Path {
	liveObject, mergedObject := withData(live), withData(merged)
	raw := comparison{}
	raw.objects(liveObject, mergedObject, nil, nil)
	if len(raw.found) == 0 {
		return nil
	}
	liveTyped, known := throughType(liveObject)
	if !known {
		return raw.found
	}
	mergedTyped, known := throughType(mergedObject)
	if !known {
		return raw.found
	}
	typed := comparison{}
	typed.objects(liveObject, mergedObject, liveTyped, mergedTyped)
	return typed.found
}

// withData returns an object with stringData in data.
func withData(obj *unstructured.Unstructured) map[string]any {
	object := maps.Clone(obj.Object)
	manifest.FoldStringData(object)
	return object
}

// side is a value in one of the two compared objects, live or merged.
type side struct {
	// raw is the value in the input; nil if it is missing.
	raw any
	// typed is the same value after a conversion to the Go type of the kind and back. It is valid only if known is true.
	typed any
	known bool
}

// field returns a field of the value if the value is a map, otherwise a missing value.
func (s side) field(name string) side {
	raw, _ := s.raw.(map[string]any)
	typed, isMap := s.typed.(map[string]any)
	return side{raw: raw[name], typed: typed[name], known: s.known && (isMap || s.typed == nil)}
}

// item returns an item of a list. If the conversion to the Go type changed the number of items, the item in the input counts.
func (s side) item(index int) side {
	raw, _ := s.raw.([]any)
	typed, _ := s.typed.([]any)
	if len(raw) != len(typed) {
		return side{raw: raw[index]}
	}
	return side{raw: raw[index], typed: typed[index], known: s.known}
}

// value returns the value as the API server would store it. If the conversion to the Go type dropped the value, either the value is zero,
// and then it counts as missing, or the Go type does not have the field, and then the value in the input counts.
func (s side) value() any {
	switch {
	case !s.known:
		return s.raw
	case s.typed != nil:
		return s.typed
	case isZero(s.raw):
		return nil
	}
	return s.raw
}

// comparison collects the differences between a live and a merged object, at most maxDifferences.
type comparison struct {
	found []fieldpath.Path
	// contained requires only that live contains merged: an empty value in merged is no difference, and live lists may have more items, in any
	// order.
	contained bool
}

func (c *comparison) add(path fieldpath.Path) {
	if !c.isFull() {
		c.found = append(c.found, path)
	}
}

func (c *comparison) isFull() bool { return len(c.found) >= maxDifferences }

// objects compares two objects. The typed ones are nil if the kind is not known.
func (c *comparison) objects(live, merged, liveTyped, mergedTyped map[string]any) {
	known := liveTyped != nil && mergedTyped != nil
	liveSide := side{raw: live, typed: liveTyped, known: known}
	mergedSide := side{raw: merged, typed: mergedTyped, known: known}
	for _, name := range sortedKeys(merged) {
		if name == "metadata" {
			c.metadata(liveSide.field(name), mergedSide.field(name))
			continue
		}
		c.values(fieldpath.MakePathOrDie(name), liveSide.field(name), mergedSide.field(name))
	}
}

// metadata compares labels and annotations exactly, and other metadata as any value. It skips managedFields, which a manifest cannot set.
func (c *comparison) metadata(live, merged side) {
	fields, isMap := merged.raw.(map[string]any)
	if !isMap {
		c.values(fieldpath.MakePathOrDie("metadata"), live, merged)
		return
	}
	for _, name := range sortedKeys(fields) {
		if name != "managedFields" && name != "labels" && name != "annotations" {
			c.values(fieldpath.MakePathOrDie("metadata", name), live.field(name), merged.field(name))
		}
	}
	for _, name := range []string{"annotations", "labels"} {
		c.exactMaps(fieldpath.MakePathOrDie("metadata", name), live.field(name), merged.field(name))
	}
}

// exactMaps compares two maps of texts. A key that only one of them has is a difference.
func (c *comparison) exactMaps(path fieldpath.Path, live, merged side) {
	liveFields, liveIsMap := live.raw.(map[string]any)
	mergedFields, mergedIsMap := merged.raw.(map[string]any)
	if !liveIsMap && live.raw != nil || !mergedIsMap && merged.raw != nil {
		c.values(path, live, merged)
		return
	}
	names := map[string]any{}
	maps.Copy(names, liveFields)
	maps.Copy(names, mergedFields)
	for _, name := range sortedKeys(names) {
		liveValue, isLive := liveFields[name]
		mergedValue, isMerged := mergedFields[name]
		if isLive != isMerged || !equalValues(liveValue, mergedValue) {
			c.add(below(path, fieldpath.FieldNameElement(name)))
		}
	}
}

// values compares two values of any kind. A null in merged is no difference.
func (c *comparison) values(path fieldpath.Path, live, merged side) {
	if merged.raw == nil || c.contained && isEmpty(merged.raw) || c.isFull() {
		return
	}
	switch typed := merged.raw.(type) {
	case map[string]any:
		if _, liveIsMap := live.raw.(map[string]any); liveIsMap {
			for _, name := range sortedKeys(typed) {
				c.values(below(path, fieldpath.FieldNameElement(name)), live.field(name), merged.field(name))
			}
			return
		}
	case []any:
		if liveItems, liveIsList := live.raw.([]any); liveIsList {
			c.lists(path, live, merged, liveItems, typed)
			return
		}
	}
	if !equalLeaves(live, merged) {
		c.add(path)
	}
}

// lists compares two lists: by a key field if their items have one, otherwise by position.
func (c *comparison) lists(path fieldpath.Path, live, merged side, liveItems, mergedItems []any) {
	if key := itemKey(liveItems, mergedItems); key != "" {
		c.keyedLists(path, key, live, merged, liveItems, mergedItems)
		return
	}
	if c.contained {
		for i := range mergedItems {
			if !isContained(live, len(liveItems), merged.item(i)) {
				c.add(path)
				return
			}
		}
		return
	}
	for i := range max(len(liveItems), len(mergedItems)) {
		itemPath := below(path, fieldpath.IndexElement(i))
		if i >= len(liveItems) || i >= len(mergedItems) {
			c.add(itemPath)
			continue
		}
		c.values(itemPath, live.item(i), merged.item(i))
	}
}

// isContained reports whether one of the count items of a live list contains everything that item has.
func isContained(live side, count int, item side) bool {
	for i := range count {
		one := comparison{contained: true}
		one.values(nil, live.item(i), item)
		if len(one.found) == 0 {
			return true
		}
	}
	return false
}

// keyedLists compares lists whose items have a key. The same items in another order are a difference of the list itself.
func (c *comparison) keyedLists(path fieldpath.Path, key string, live, merged side, liveItems, mergedItems []any) {
	positions := make(map[string]int, len(liveItems))
	for i, item := range liveItems {
		positions[keyValue(item, key)] = i
	}
	moved := false
	for i, item := range mergedItems {
		value := keyValue(item, key)
		itemPath := below(path, itemElement(item, key))
		position, found := positions[value]
		if !found {
			if c.contained {
				itemPath = path
			}
			c.add(itemPath)
			continue
		}
		delete(positions, value)
		moved = moved || position != i
		c.values(itemPath, live.item(position), merged.item(i))
	}
	if c.contained {
		return
	}
	for i, item := range liveItems {
		value := keyValue(item, key)
		if position, left := positions[value]; left && position == i {
			c.add(below(path, itemElement(item, key)))
		}
	}
	if moved && len(liveItems) == len(mergedItems) && len(positions) == 0 {
		c.add(path)
	}
}

func sortedKeys(values map[string]any) []string {
	return slices.Sorted(maps.Keys(values))
}
