package rollout

import (
	"fmt"

	"k8s.io/apimachinery/pkg/api/equality"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"sigs.k8s.io/yaml"

	"github.com/espalier-dev/espalier/api/references"
)

// WithTexts returns a copy of an object with replaced texts. It replaces a text only if the text is a whole value. If the value of a
// reference annotation is replaced, WithTexts also changes the key of the annotation to match the new value.
func WithTexts(o *unstructured.Unstructured, replaced map[string]string) *unstructured.Unstructured {
	changed := o.DeepCopy()
	changed.Object, _ = replaceIn(changed.Object, replaced).(map[string]any) // a map stays a map
	return changed
}

func replaceIn(value any, replaced map[string]string) any {
	switch value := value.(type) {
	case string:
		if text, found := replaced[value]; found {
			return text
		}
	case []any:
		for i := range value {
			value[i] = replaceIn(value[i], replaced)
		}
	case map[string]any:
		changed := make(map[string]any, len(value))
		for key, each := range value {
			before, isText := each.(string)
			if name, found := replaced[before]; isText && found {
				if kind, isReference := references.KindFromAnnotationKey(key); isReference {
					key = references.AnnotationKey(kind, name)
				}
			}
			changed[key] = replaceIn(each, replaced)
		}
		return changed
	}
	return value
}

// withTextsInManifests replaces texts in manifests, one per key. Manifests without such a text stay as they are written.
func withTextsInManifests(manifests map[string][]byte, replaced map[string]string) (map[string][]byte, error) {
	changed := make(map[string][]byte, len(manifests))
	for key, text := range manifests {
		changed[key] = text
		before := &unstructured.Unstructured{}
		if err := yaml.Unmarshal(text, &before.Object); err != nil {
			return nil, fmt.Errorf("read manifest %s: %w", key, err)
		}
		after := WithTexts(before, replaced)
		if equality.Semantic.DeepEqual(before, after) {
			continue
		}
		var err error
		if changed[key], err = YAML(after); err != nil {
			return nil, err
		}
	}
	return changed, nil
}
