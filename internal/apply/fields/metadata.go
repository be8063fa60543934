package fields

import (
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// KeysOwnedOnlyByUs lists the keys of an object's labels (part "labels") or annotations (part "annotations") that Espalier owns
// and no other manager. A write of Espalier set these keys. Keys that Espalier did not send are defaults.
func KeysOwnedOnlyByUs(entries []metav1.ManagedFieldsEntry, part string) []string {
	owned, foreign := map[string]struct{}{}, map[string]struct{}{}
	for _, entry := range entries {
		into := foreign
		if ours(entry) {
			into = owned
		}
		for element := range elements(at(parsed(entry), "metadata", part)) {
			if element.FieldName != nil {
				into[*element.FieldName] = struct{}{}
			}
		}
	}
	keys := make([]string, 0, len(owned))
	for key := range owned {
		if _, shared := foreign[key]; !shared {
			keys = append(keys, key)
		}
	}
	return keys
}
