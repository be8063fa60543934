package extensionvalidation

import (
	"encoding/json"
	"fmt"
	"slices"
	"strings"

	"k8s.io/apimachinery/pkg/util/validation/field"
)

// Large objects must not lead to large answers, which no user reads, nor to much work: texts are put together in a way that
// takes time by the square of their length.
const (
	// maxFindings is how many are listed at most, and maxText how long they may be together, in bytes. More are dropped.
	maxFindings = 1000
	maxText     = 64 << 10
	// maxValue limits each shown value, and maxDetail each explanation, in bytes.
	maxValue  = 1 << 10
	maxDetail = 32 << 10
)

// findings collects the errors of one object.
type findings struct {
	list field.ErrorList
	// text is how long the list is, in bytes.
	text int
	// dropped is true once an error was not listed.
	dropped bool
}

// full reports whether nothing more is listed. Callers that check many things stop then.
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

// shortened returns a finding that shows no more than the beginning of long values.
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

// cut returns text, or its beginning and how long all of it is.
func cut(text string, limit int) string {
	if len(text) <= limit {
		return text
	}
	return strings.ToValidUTF8(text[:limit], "") + fmt.Sprintf("… (cut, %d bytes in all)", len(text))
}

// require finds text that is empty.
func (f *findings) require(path *field.Path, value string) { f.requireIf(value == "", path) }

// requireIf finds that something is missing.
func (f *findings) requireIf(missing bool, path *field.Path) {
	if missing {
		f.add(field.Required(path, "field is required"))
	}
}

// oneOf finds a value that is none of those known.
func (f *findings) oneOf(path *field.Path, value string, known ...string) {
	if !slices.Contains(known, value) {
		f.add(field.NotSupported(path, value, known))
	}
}
