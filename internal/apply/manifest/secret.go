package manifest

import (
	"encoding/base64"
	"maps"
)

// FoldStringData moves the stringData of a core/v1 Secret into its data, in place, as the API server does on every
// write: encoded in base64, replacing an entry of data with the same key. It does not change other objects, and
// Secrets whose data or stringData is malformed: the API server refuses them with an error.
func FoldStringData(object map[string]any) {
	if object["kind"] != "Secret" || object["apiVersion"] != "v1" {
		return
	}
	texts, found := object["stringData"]
	if !found {
		return
	}
	folded, ok := foldedData(object["data"], texts)
	if !ok {
		return
	}
	delete(object, "stringData")
	if len(folded) > 0 {
		object["data"] = folded
	}
}

// foldedData returns data overlaid with the encoded texts.
func foldedData(data, texts any) (map[string]any, bool) {
	oldData, ok := optionalMap(data)
	if !ok {
		return nil, false
	}
	newTexts, ok := optionalMap(texts)
	if !ok {
		return nil, false
	}
	folded := make(map[string]any, len(oldData)+len(newTexts))
	maps.Copy(folded, oldData)
	for key, value := range newTexts {
		text, isText := value.(string)
		if !isText && value != nil {
			return nil, false
		}
		folded[key] = base64.StdEncoding.EncodeToString([]byte(text))
	}
	return folded, true
}

// optionalMap returns a map. It treats null as a missing map.
func optionalMap(value any) (map[string]any, bool) {
	if value == nil {
		return nil, true
	}
	typed, ok := value.(map[string]any)
	return typed, ok
}
