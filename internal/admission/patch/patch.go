// Package patch builds JSON Patches (RFC 6902) from the changes of a handler. It does not need the whole object.
package patch

import (
	"encoding/json"
	"errors"
	"fmt"
	"strconv"
	"strings"
)

// Patch is a list of operations, applied in order. The zero value changes nothing.
type Patch []Operation

// Operation is one step of a Patch.
type Operation struct {
	// Op is add or remove.
	Op string `json:"op"`
	// Path is a JSON Pointer (RFC 6901); see Pointer.
	Path string `json:"path"`
	// Value is the new value, encoded as the Kubernetes API does; nil for remove.
	Value any `json:"value,omitempty"`
}

// Add sets a member of an object, whether the member exists or not, or inserts into a list, at its end if the path ends in "-". A member
// whose value is null can be set, but nothing can be added inside it.
func (p *Patch) Add(path string, value any) {
	if value == nil {
		value = json.RawMessage("null")
	}
	*p = append(*p, Operation{Op: "add", Path: path, Value: value})
}

// Remove removes the value at path, which must exist.
func (p *Patch) Remove(path string) { *p = append(*p, Operation{Op: "remove", Path: path}) }

// Append adds values to the end of a list that has length items. If the list is empty, the operation sets the whole list, because it may be
// absent or null.
func Append[V any](p *Patch, path string, length int, values ...V) {
	if len(values) == 0 {
		return
	}
	if length == 0 {
		p.Add(path, values)
		return
	}
	for _, value := range values {
		p.Add(path+"/-", value)
	}
}

// Pointer joins names of members and indexes to a path.
func Pointer(parts ...any) string {
	path := make([]byte, 0, usualPath)
	for _, part := range parts {
		path = append(path, '/')
		switch typed := part.(type) {
		case string:
			path = append(path, escape.Replace(typed)...)
		case int:
			path = strconv.AppendInt(path, int64(typed), 10)
		default:
			path = append(path, escape.Replace(fmt.Sprint(part))...)
		}
	}
	return string(path)
}

// usualPath is longer than most paths, in bytes.
const usualPath = 64

// escape escapes a part of a JSON Pointer.
var escape = strings.NewReplacer("~", "~0", "/", "~1")

// ErrTooLarge refuses a patch that would keep API servers busy for long, or use too much memory of this process. No real workload needs so
// many changes.
var ErrTooLarge = errors.New("the object needs too many changes")

// MaxOperations is the limit of operations in one patch, maxBytes the limit of the encoded patch.
const (
	MaxOperations = 10_000
	maxBytes      = 8 << 20
)

// Encode returns the patch as a JSON document; nil if it is empty.
func (p Patch) Encode() ([]byte, error) {
	if len(p) == 0 {
		return nil, nil
	}
	if len(p) > MaxOperations {
		return nil, fmt.Errorf("%w: %d, at most %d are made", ErrTooLarge, len(p), MaxOperations)
	}
	document := []byte{'['}
	for i, each := range p {
		if i > 0 {
			document = append(document, ',')
		}
		encoded, err := json.Marshal(each)
		if err != nil {
			return nil, fmt.Errorf("encode patch: %w", err)
		}
		if document = append(document, encoded...); len(document) > maxBytes {
			return nil, fmt.Errorf("%w: more than %d bytes", ErrTooLarge, maxBytes)
		}
	}
	return append(document, ']'), nil
}
