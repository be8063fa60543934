package review

import (
	"bytes"
	"encoding"
	stdjson "encoding/json"
	"maps"
	"reflect"
	"slices"
	"strings"
	"sync"

	"github.com/go-json-experiment/json"
)

// A decoder is an order of magnitude slower than a look for the next quote or bracket, and handlers look at little of an
// object. Therefore it is given only what the type has fields for.

// shape is what is kept of a value of JSON.
type shape struct {
	// whole says that all of it is.
	whole bool
	// members are what is kept of an object; items is what is kept of each item of a list.
	members map[string]*shape
	items   *shape
}

// shapes are those of the types that have been decoded.
var shapes sync.Map //nolint:gochecknoglobals // a cache of what never changes

func shapeFor(t reflect.Type) *shape {
	if known, ok := shapes.Load(t); ok {
		return known.(*shape) //nolint:forcetypeassert,errcheck // it holds nothing else
	}
	made := shapeOf(t, nil)
	shapes.Store(t, made)
	return made
}

// shapeOf follows a type as far as it decodes by its fields. Within are the types around it.
func shapeOf(t reflect.Type, within []reflect.Type) *shape {
	if slices.Contains(within, t) || decodesItself(t) {
		return &shape{whole: true}
	}
	within = append(within, t)
	switch t.Kind() { //nolint:exhaustive // all others are decoded as a whole
	case reflect.Pointer:
		return shapeOf(t.Elem(), within)
	case reflect.Slice, reflect.Array:
		if items := shapeOf(t.Elem(), within); !items.whole {
			return &shape{items: items}
		}
	case reflect.Struct:
		if members, ok := membersOf(t, within); ok {
			return &shape{members: members}
		}
	}
	return &shape{whole: true}
}

func decodesItself(t reflect.Type) bool {
	for _, each := range []reflect.Type{reflect.TypeFor[json.UnmarshalerFrom](), reflect.TypeFor[stdjson.Unmarshaler](), reflect.TypeFor[encoding.TextUnmarshaler]()} {
		if t.Implements(each) || reflect.PointerTo(t).Implements(each) {
			return true
		}
	}
	return false
}

// membersOf returns what is kept for the fields of a struct. It is not ok if the struct takes members that it has no field
// for, or names fields in a way that is not understood here.
func membersOf(t reflect.Type, within []reflect.Type) (members map[string]*shape, ok bool) {
	members = map[string]*shape{}
	embedded := map[string]*shape{}
	for field := range t.Fields() {
		name, options, _ := strings.Cut(field.Tag.Get("json"), ",")
		switch {
		case name == "-" && options == "" || !field.IsExported() && !field.Anonymous:
		case isEmbedded(field, name, options):
			inner, understood := membersOf(field.Type, within)
			if !understood {
				return nil, false
			}
			maps.Copy(embedded, inner)
		case name == "" || strings.ContainsAny(name, `'"\`) || !slices.Contains([]string{"", "omitempty", "omitzero"}, options):
			return nil, false
		default:
			members[name] = shapeOf(field.Type, within)
		}
	}
	maps.Copy(embedded, members)
	return embedded, true
}

// isEmbedded tells whether the members of a field are members of the struct.
func isEmbedded(field reflect.StructField, name, options string) bool {
	return field.Anonymous && name == "" && (options == "" || options == "inline") && field.Type.Kind() == reflect.Struct
}

// prune appends to out what a shape keeps of a value that is valid JSON. It is not ok if the value shows that it is not.
func prune(out, value []byte, of *shape) (kept []byte, ok bool) {
	switch {
	case len(value) == 0:
		return out, false
	case of.members != nil && value[0] == '{':
		return pruneObject(out, value, of.members)
	case of.items != nil && value[0] == '[':
		return pruneList(out, value, of.items)
	}
	return append(out, value...), true
}

func pruneObject(out, value []byte, members map[string]*shape) (kept []byte, ok bool) {
	out = append(out, '{')
	begin := len(out)
	for at := 1; ; {
		at = item(value, at)
		if at < len(value) && value[at] == '}' {
			return append(out, '}'), true
		}
		name, content, end := member(value, at)
		if end < 0 {
			return out, false
		}
		at = end
		of, wanted := members[string(name[1:len(name)-1])]
		if escaped := bytes.IndexByte(name, '\\') >= 0; escaped { // whatever it stands for
			of, wanted = &shape{whole: true}, true
		}
		if !wanted {
			continue
		}
		if len(out) > begin {
			out = append(out, ',')
		}
		out = append(append(out, name...), ':')
		if out, ok = prune(out, content, of); !ok {
			return out, false
		}
	}
}

// item returns where the next item or member begins, or the end of a list or object.
func item(value []byte, at int) int {
	at = space(value, at)
	if at < len(value) && value[at] == ',' {
		return space(value, at+1)
	}
	return at
}

// member returns the name, with its quotes, and the content of the member that begins at a place, and where it ends; that is
// negative if it does not.
func member(value []byte, at int) (name, content []byte, end int) {
	end = next(value, at)
	if end < 0 || value[at] != '"' {
		return nil, nil, -1
	}
	name, at = value[at:end], space(value, end)
	if at >= len(value) || value[at] != ':' {
		return nil, nil, -1
	}
	at = space(value, at+1)
	if end = next(value, at); end < 0 {
		return nil, nil, -1
	}
	return name, value[at:end], end
}

func pruneList(out, value []byte, items *shape) (kept []byte, ok bool) {
	out = append(out, '[')
	for at := 1; ; {
		at = space(value, at)
		if at < len(value) && value[at] == ',' {
			out = append(out, ',')
			at = space(value, at+1)
		}
		if at < len(value) && value[at] == ']' {
			return append(out, ']'), true
		}
		end := next(value, at)
		if end < 0 {
			return out, false
		}
		if out, ok = prune(out, value[at:end], items); !ok {
			return out, false
		}
		at = end
	}
}

// space returns where something other than white space is.
func space(value []byte, at int) int {
	for at < len(value) && (value[at] == ' ' || value[at] == '\n' || value[at] == '\t' || value[at] == '\r') {
		at++
	}
	return at
}

// next returns where the value that begins at a place ends, negative if it does not.
func next(value []byte, at int) int {
	for depth, begin := 0, at; at < len(value); at++ {
		switch value[at] {
		case '"':
			if at = quoted(value, at); at < 0 || depth == 0 {
				return at
			}
			at--
		case '{', '[':
			depth++
		case '}', ']':
			depth--
			if depth < 0 {
				return ended(begin, at)
			}
			if depth == 0 {
				return at + 1
			}
		case ',', ' ', '\n', '\t', '\r':
			if depth == 0 {
				return ended(begin, at)
			}
		}
	}
	return -1
}

// ended is where a value without brackets ends, negative if there is none.
func ended(begin, at int) int {
	if at == begin {
		return -1
	}
	return at
}

// quoted returns where the string that begins at a place ends, negative if it does not.
func quoted(value []byte, at int) int {
	for at++; at < len(value); at++ {
		switch value[at] {
		case '"':
			return at + 1
		case '\\':
			at++
		}
	}
	return -1
}
