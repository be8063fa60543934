package fields

import (
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// Sole lists the keys of an object's labels (part "labels") or annotations (part "annotations") that Espalier holds and
// nobody else: whatever their values are, they came with a write of ours. Those that we did not send are defaults.
func Sole(entries []metav1.ManagedFieldsEntry, part string) []string {
	held, foreign := map[string]struct{}{}, map[string]struct{}{}
	for _, entry := range entries {
		into := foreign
		if ours(entry) {
			into = held
		}
		for element := range elements(at(parsed(entry), "metadata", part)) {
			if element.FieldName != nil {
				into[*element.FieldName] = struct{}{}
			}
		}
	}
	keys := make([]string, 0, len(held))
	for key := range held {
		if _, shared := foreign[key]; !shared {
			keys = append(keys, key)
		}
	}
	return keys
}
