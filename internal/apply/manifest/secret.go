package manifest

import (
	"encoding/base64"
	"maps"
)

// FoldStringData moves the stringData of a core/v1 Secret into its data, in place, as the API server does on every write: encoded in
// base64, replacing an entry of data with the same key. It changes neither other objects nor Secrets whose data or stringData is
// malformed: the API server refuses such Secrets with an error.
func FoldStringData(object map[string]any) {
	stringData, found := object["stringData"]
	if !found || object["kind"] != "Secret" || object["apiVersion"] != "v1" {
		return
	}
	texts, isMap := stringData.(map[string]any)
	if !isMap && stringData != nil {
		return
	}
	data, isMap := object["data"].(map[string]any)
	if !isMap && object["data"] != nil {
		return
	}
	folded := make(map[string]any, len(data)+len(texts))
	maps.Copy(folded, data)
	for key, value := range texts {
		text, isText := value.(string)
		if !isText && value != nil {
			return
		}
		folded[key] = base64.StdEncoding.EncodeToString([]byte(text))
	}
	delete(object, "stringData")
	if len(folded) > 0 {
		object["data"] = folded
	}
}
