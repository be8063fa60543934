package webhook

import (
	"encoding/json"
	"fmt"
	"maps"
	"reflect"
	"slices"

	"github.com/espalier-dev/espalier/internal/admission/patch"
)

// fields returns the map that JSON decodes an object to.
func fields(object any) (map[string]any, error) {
	encoded, err := json.Marshal(object)
	if err != nil {
		return nil, fmt.Errorf("encode %T: %w", object, err)
	}
	decoded := map[string]any{}
	if err := json.Unmarshal(encoded, &decoded); err != nil {
		return nil, fmt.Errorf("decode %T: %w", object, err)
	}
	return decoded, nil
}

// difference returns a patch for sent, the object in the form in which the client sent it. The patch makes the changes from before to
// after, which are two typed forms of the object. The patch changes only fields that differ between the typed forms. So old forms of
// fields, and fields that the types do not have, stay as the client sent them. A JSON object that the client did not send is added as a
// whole. Lists are replaced as a whole.
func difference(sent, before, after map[string]any) patch.Patch {
	return differenceAt(nil, sent, before, after)
}

func differenceAt(at []any, sent, before, after map[string]any) patch.Patch {
	var changes patch.Patch
	for _, name := range slices.Sorted(maps.Keys(after)) {
		was, is := before[name], after[name]
		if reflect.DeepEqual(was, is) {
			continue
		}
		path := append(slices.Clone(at), name)
		sentObject, wasSent := sent[name].(map[string]any)
		isObject, ok := is.(map[string]any)
		if !wasSent || !ok {
			changes.Add(patch.Pointer(path...), is)
			continue
		}
		wasObject, _ := was.(map[string]any)
		changes = append(changes, differenceAt(path, sentObject, wasObject, isObject)...)
	}
	for _, name := range slices.Sorted(maps.Keys(before)) {
		_, stays := after[name]
		if _, wasSent := sent[name]; wasSent && !stays {
			changes.Remove(patch.Pointer(append(slices.Clone(at), name)...))
		}
	}
	return changes
}
