// Package difference lists the fields at which two states of an object differ, for plans. Values of Secrets, and values that may be copies
// of Secrets, are masked.
package difference

import (
	"encoding/base64"
	"encoding/json"
	"fmt"
	"slices"
	"strings"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"sigs.k8s.io/structured-merge-diff/v6/fieldpath"

	"github.com/espalier-dev/espalier/internal/apply/fields"
	"github.com/espalier-dev/espalier/internal/apply/merge"
	"github.com/espalier-dev/espalier/internal/excerpt"
)

const (
	// maxFields is the maximum number of differences that are listed for one object.
	maxFields = 20
	// maxValue is the maximum length of a value, in bytes.
	maxValue = 256
)

// notShown replaces a value that must not be shown.
const notShown = "(not shown)"

// Field is a field at which two states of an object differ.
type Field struct {
	// Path is the path of the field, as in spec.template.spec.containers[name=app].image.
	Path string `json:"path"`
	// Old and New are the present and the planned value as JSON, cut after 256 bytes; empty if the field has no value.
	Old string `json:"old,omitempty"`
	New string `json:"new,omitempty"`
	// Masked replaces Old and New, which are then empty, if values must not be shown. It describes the change without values, such as "changed
	// (3 bytes → 5 bytes)".
	Masked string `json:"masked,omitempty"`
}

// WithoutValues returns the field without its values: Masked is "added", "removed" or "changed", unless it is set already.
func (f Field) WithoutValues() Field {
	switch {
	case f.Masked != "":
		return f
	case f.Old == "":
		return Field{Path: f.Path, Masked: "added"}
	case f.New == "":
		return Field{Path: f.Path, Masked: "removed"}
	}
	return Field{Path: f.Path, Masked: "changed"}
}

// Of lists where two states of an object differ: at most 20 fields; more is the number of further fields. If exact is true, both states are
// complete. Otherwise next is an object that would be sent to the API server, and fields that only live has are ignored, because they may
// be defaults.
func Of(live, next *unstructured.Unstructured, exact bool) (fields []Field, more int) {
	before, after := stripped(live), stripped(next)
	paths := Paths(before, after, exact)
	for _, path := range paths {
		if len(fields) == maxFields {
			return fields, len(paths) - maxFields
		}
		fields = append(fields, fieldAt(path, before.Object, after.Object))
	}
	return fields, 0
}

// Paths returns the paths at which two states of an object differ, sorted by their text. See Of for exact.
func Paths(before, after *unstructured.Unstructured, exact bool) []fieldpath.Path {
	paths := merge.Differences(before, after)
	if exact {
		paths = append(paths, merge.Differences(after, before)...)
	}
	slices.SortFunc(paths, func(a, b fieldpath.Path) int { return strings.Compare(merge.PathText(a), merge.PathText(b)) })
	return slices.CompactFunc(paths, fieldpath.Path.Equals)
}

// stripped returns an object without the fields that every write changes or that plans do not contain.
func stripped(object *unstructured.Unstructured) *unstructured.Unstructured {
	plain := object.DeepCopy()
	delete(plain.Object, "status")
	for _, name := range []string{"managedFields", "resourceVersion", "generation", "creationTimestamp", "uid"} {
		unstructured.RemoveNestedField(plain.Object, "metadata", name)
	}
	return plain
}

func fieldAt(path fieldpath.Path, before, after map[string]any) Field {
	field := Field{Path: merge.PathText(path)}
	oldValue, was := lookup(before, path)
	newValue, is := lookup(after, path)
	passes := func(names func(string) bool) bool {
		return slices.ContainsFunc(path, func(element fieldpath.PathElement) bool {
			return element.FieldName != nil &&
				names(*element.FieldName)
		})
	}
	switch {
	case passes(holdsCopies):
		field.Masked = notShown
	case was.hidden || is.hidden:
		field.Masked = masked(oldValue, newValue, passes(func(name string) bool { return name == "stringData" || name == "annotations" }))
	default:
		field.Old, field.New = shown(oldValue, was), shown(newValue, is)
		if field.Old == field.New && strings.Contains(field.Old, notShown) {
			field.Old, field.New, field.Masked = "", "", notShown
		}
	}
	return field
}

// lookup returns the value at a path, nil if there is none, and the position of the value.
func lookup(object map[string]any, path fieldpath.Path) (value any, at position) {
	value, at = object, position{}.of(object)
	for _, element := range path {
		value, _ = fields.Child(value, element)
		name := ""
		if element.FieldName != nil {
			name = *element.FieldName
		}
		at = at.below(name).of(value)
	}
	return value, at
}

// masked describes a change by the sizes of the two values only; see size for plain.
func masked(before, after any, plain bool) string {
	switch {
	case before == nil:
		return fmt.Sprintf("added (%s)", size(after, plain))
	case after == nil:
		return fmt.Sprintf("removed (%s)", size(before, plain))
	}
	return fmt.Sprintf("changed (%s → %s)", size(before, plain), size(after, plain))
}

// size returns the length of a value of a Secret: the length after decoding from base64, unless plain is true.
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
	text, err := JSON(scrubbed(value, at), "")
	if err != nil {
		return notShown
	}
	return excerpt.Of(strings.TrimSuffix(text, "\n"), maxValue)
}

// JSON returns a value as JSON, in one line if indent is empty. It does not escape characters of HTML.
func JSON(value any, indent string) (string, error) {
	var text strings.Builder
	encoder := json.NewEncoder(&text)
	encoder.SetEscapeHTML(false)
	encoder.SetIndent("", indent)
	if err := encoder.Encode(value); err != nil {
		return "", fmt.Errorf("encode plan: %w", err)
	}
	return text.String(), nil
}
