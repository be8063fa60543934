package extensionvalidation

import (
	"encoding/json"
	"fmt"
	"slices"
	"strings"

	"k8s.io/apimachinery/pkg/util/validation/field"
)

// These are limits for large objects: no user reads a long response, and the time to join the error texts grows with the square of their
// length.
const (
	// maxFindings is the maximum number of errors, and maxText the maximum of their total length in bytes. Further errors are dropped.
	maxFindings = 1000
	maxText     = 64 << 10
	// maxValue limits each value in a text, and maxDetail each explanation, in bytes.
	maxValue  = 1 << 10
	maxDetail = 32 << 10
)

// findings collects the validation errors of one object.
type findings struct {
	list field.ErrorList
	// text is the total length of the errors, in bytes.
	text int
	// dropped is true if an error was dropped.
	dropped bool
}

// full reports whether further errors would be dropped. Callers with many checks stop then.
func (f *findings) full() bool { return f.dropped || len(f.list) >= maxFindings }

func (f *findings) add(found ...*field.Error) {
	for _, each := range found {
		if f.full() {
			return
		}
		each = shortened(each)
		length := len(each.Error())
		if f.text+length > maxText && len(f.list) > 0 {
			f.dropped = true
			return
		}
		f.list = append(f.list, each)
		f.text += length
	}
}

// shortened returns the error with at most the beginning of long values.
func shortened(found *field.Error) *field.Error {
	short := *found
	short.Field, short.Detail = cut(found.Field, maxValue), cut(found.Detail, maxDetail)
	switch value := found.BadValue.(type) {
	case string:
		short.BadValue = cut(value, maxValue)
	case nil, bool, int, int32, int64:
	default:
		if encoded, err := json.Marshal(value); err == nil && len(encoded) > maxValue {
			short.BadValue = cut(string(encoded), maxValue)
		}
	}
	return &short
}

// cut returns the text or, if it is longer than limit, its beginning and its length.
func cut(text string, limit int) string {
	if len(text) <= limit {
		return text
	}
	return strings.ToValidUTF8(text[:limit], "") + fmt.Sprintf("… (cut, %d bytes in all)", len(text))
}

// require adds an error if a text is empty.
func (f *findings) require(path *field.Path, value string) { f.requireIf(value == "", path) }

// requireIf adds an error if a field is missing.
func (f *findings) requireIf(missing bool, path *field.Path) {
	if missing {
		f.add(field.Required(path, "field is required"))
	}
}

// oneOf adds an error if a value is not one of the known ones.
func (f *findings) oneOf(path *field.Path, value string, known ...string) {
	if !slices.Contains(known, value) {
		f.add(field.NotSupported(path, value, known))
	}
}
