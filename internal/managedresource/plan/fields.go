package plan

import (
	"bytes"
	"encoding/base64"
	"encoding/json"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"unicode/utf8"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"github.com/espalier-dev/espalier/internal/apply/merge"
)

const (
	// maxFields bounds the differences that are listed of one object.
	maxFields = 20
	// maxValue bounds a value, in bytes.
	maxValue = 256
	// maxNote bounds what is said about one object, in bytes: API servers and webhooks may say a lot.
	maxNote = 1024
)

// hiddenAnnotations hold copies of whole objects, in which nobody can tell a password from a colour.
func hiddenAnnotations() []string {
	return []string{"kubectl.kubernetes.io/last-applied-configuration"}
}

// shownOfSecret are the fields of a Secret whose values are not secret. Everything else is masked, so that a
// misspelt "stringdata" is too.
func shownOfSecret() []string { return []string{"apiVersion", "kind", "metadata", "type", "immutable"} }

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
	oldValue, oldSecret := lookup(before, path)
	newValue, newSecret := lookup(after, path)
	switch {
	case slices.ContainsFunc(path, func(element string) bool { return slices.Contains(hiddenAnnotations(), element) }):
		field.Masked = notShown
	case oldSecret || newSecret:
		field.Masked = masked(oldValue, newValue, slices.Contains(path, "stringData"))
	default:
		field.Old, field.New = shown(oldValue), shown(newValue)
	}
	return field
}

// lookup finds the value at a path, nil if there is none, and tells whether it is part of what a Secret hides.
func lookup(object map[string]any, path merge.Path) (value any, secret bool) {
	value = object
	for _, element := range path {
		switch typed := value.(type) {
		case map[string]any:
			secret = secret || typed["kind"] == "Secret" && !slices.Contains(shownOfSecret(), element)
			value = typed[element]
		case []any:
			value = itemAt(typed, element)
		default:
			value = nil
		}
	}
	return value, secret
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
func shown(value any) string {
	if value == nil {
		return ""
	}
	var text bytes.Buffer
	encoder := json.NewEncoder(&text)
	encoder.SetEscapeHTML(false)
	if err := encoder.Encode(scrubbed(value)); err != nil {
		return notShown
	}
	return cut(strings.TrimSuffix(text.String(), "\n"), maxValue)
}

// scrubbed returns a value without what must not be seen anywhere inside of it.
func scrubbed(value any) any {
	switch typed := value.(type) {
	case map[string]any:
		plain := make(map[string]any, len(typed))
		for name, each := range typed {
			if slices.Contains(hiddenAnnotations(), name) || typed["kind"] == "Secret" && !slices.Contains(shownOfSecret(), name) {
				plain[name] = notShown
				continue
			}
			plain[name] = scrubbed(each)
		}
		return plain
	case []any:
		plain := make([]any, 0, len(typed))
		for _, each := range typed {
			plain = append(plain, scrubbed(each))
		}
		return plain
	}
	return value
}

// cut shortens a text to so many bytes, without breaking a character.
func cut(text string, limit int) string {
	if len(text) <= limit {
		return text
	}
	end := limit - len("…")
	for end > 0 && !utf8.RuneStart(text[end]) {
		end--
	}
	return text[:end] + "…"
}
