package plan

import (
	"bytes"
	"encoding/base64"
	"encoding/json"
	"fmt"
	"slices"
	"strconv"
	"strings"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"github.com/espalier-dev/espalier/internal/apply/merge"
	"github.com/espalier-dev/espalier/internal/excerpt"
)

const (
	// maxFields bounds the differences that are listed of one object.
	maxFields = 20
	// maxValue bounds a value, in bytes.
	maxValue = 256
	// maxNote bounds what is said about one object, in bytes: API servers and webhooks may say a lot.
	maxNote = 1024
)

// notShown stands for a value that must not be seen.
const notShown = "(not shown)"

// differences lists where two states of an object differ. Both come from the API server if exact is true; otherwise next
// is what would be sent to it, and fields that only live has may be defaults, so that they do not count.
func differences(live, next *unstructured.Unstructured, exact bool) (fields []Field, more int) {
	before, after := stripped(live), stripped(next)
	paths := merge.Differences(before, after)
	if exact {
		paths = append(paths, merge.Differences(after, before)...)
	}
	slices.SortFunc(paths, func(a, b merge.Path) int { return strings.Compare(a.String(), b.String()) })
	paths = slices.CompactFunc(paths, slices.Equal[merge.Path])
	for _, path := range paths {
		if len(fields) == maxFields {
			return fields, len(paths) - maxFields
		}
		fields = append(fields, fieldAt(path, before.Object, after.Object))
	}
	return fields, 0
}

// stripped returns an object without what every write changes, or nobody plans.
func stripped(object *unstructured.Unstructured) *unstructured.Unstructured {
	plain := object.DeepCopy()
	delete(plain.Object, "status")
	for _, name := range []string{"managedFields", "resourceVersion", "generation", "creationTimestamp", "uid"} {
		unstructured.RemoveNestedField(plain.Object, "metadata", name)
	}
	return plain
}

func fieldAt(path merge.Path, before, after map[string]any) Field {
	field := Field{Path: path.String()}
	oldValue, was := lookup(before, path)
	newValue, is := lookup(after, path)
	switch {
	case slices.ContainsFunc(path, holdsCopies):
		field.Masked = notShown
	case was.hidden || is.hidden:
		field.Masked = masked(oldValue, newValue, slices.Contains(path, "stringData") || slices.Contains(path, "annotations"))
	default:
		field.Old, field.New = shown(oldValue, was), shown(newValue, is)
		if field.Old == field.New && strings.Contains(field.Old, notShown) {
			field.Old, field.New, field.Masked = "", "", notShown
		}
	}
	return field
}

// lookup finds the value at a path, nil if there is none, and where that is.
func lookup(object map[string]any, path merge.Path) (value any, at position) {
	value, at = object, position{}.of(object)
	for _, element := range path {
		switch typed := value.(type) {
		case map[string]any:
			value = typed[element]
		case []any:
			value = itemAt(typed, element)
		default:
			value = nil
		}
		at = at.below(element).of(value)
	}
	return value, at
}

// itemAt finds the item of a list that a path element like [3] or [name=app] stands for.
func itemAt(list []any, element string) any {
	inner := strings.TrimSuffix(strings.TrimPrefix(element, "["), "]")
	key, want, keyed := strings.Cut(inner, "=")
	for i, item := range list {
		if !keyed {
			if strconv.Itoa(i) == inner {
				return item
			}
			continue
		}
		if fields, isMap := item.(map[string]any); isMap && fmt.Sprint(fields[key]) == want {
			return item
		}
	}
	return nil
}

// masked tells of two values how long they are, and nothing else.
func masked(before, after any, plain bool) string {
	switch {
	case before == nil:
		return fmt.Sprintf("added (%s)", size(after, plain))
	case after == nil:
		return fmt.Sprintf("removed (%s)", size(before, plain))
	}
	return fmt.Sprintf("changed (%s → %s)", size(before, plain), size(after, plain))
}

// size is the length of a value of a Secret: of what is encoded, unless it stands there in plain.
func size(value any, plain bool) string {
	switch typed := value.(type) {
	case string:
		if decoded, err := base64.StdEncoding.DecodeString(typed); err == nil && !plain {
			return fmt.Sprintf("%d bytes", len(decoded))
		}
		return fmt.Sprintf("%d bytes", len(typed))
	case map[string]any:
		return fmt.Sprintf("%d keys", len(typed))
	}
	return notShown
}

// shown returns a value as JSON of bounded length; empty if there is none.
func shown(value any, at position) string {
	if value == nil {
		return ""
	}
	var text bytes.Buffer
	encoder := json.NewEncoder(&text)
	encoder.SetEscapeHTML(false)
	if err := encoder.Encode(scrubbed(value, at)); err != nil {
		return notShown
	}
	return excerpt.Of(strings.TrimSuffix(text.String(), "\n"), maxValue)
}
