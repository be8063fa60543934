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

// pruner takes from a text what a shape keeps. Each byte is looked at once; what the outline of the text leads past, not at all.
type pruner struct {
	text    []byte
	outline outline
}

// prune appends to out what a shape keeps of the value that begins at a place, and returns where that ends; negative if the
// value shows that it is no JSON. Places must not go back from call to call.
func (p *pruner) prune(out []byte, at int, of *shape) (kept []byte, end int) {
	switch {
	case at >= len(p.text):
		return out, -1
	case of.members != nil && p.text[at] == '{':
		return p.pruneObject(out, at, of.members)
	case of.items != nil && p.text[at] == '[':
		return p.pruneList(out, at, of.items)
	}
	if end = p.next(at); end < 0 {
		return out, -1
	}
	return append(out, p.text[at:end]...), end
}

func (p *pruner) pruneObject(out []byte, at int, members map[string]*shape) (kept []byte, end int) {
	out = append(out, '{')
	begin := len(out)
	ended := walk(p.text, at, func(name []byte, at int) int {
		of, wanted := members[string(name[1:len(name)-1])]
		if bytes.IndexByte(name, '\\') >= 0 { // whatever it stands for
			of, wanted = &shape{whole: true}, true
		}
		if !wanted {
			return p.next(at)
		}
		if len(out) > begin {
			out = append(out, ',')
		}
		out = append(append(out, name...), ':')
		kept, end := p.prune(out, at, of)
		out = kept
		return end
	})
	return append(out, '}'), ended
}

func (p *pruner) pruneList(out []byte, at int, items *shape) (kept []byte, end int) {
	out = append(out, '[')
	begin := len(out)
	ended := walkList(p.text, at, func(at int) int {
		if len(out) > begin {
			out = append(out, ',')
		}
		kept, end := p.prune(out, at, items)
		out = kept
		return end
	})
	return append(out, ']'), ended
}

// next is the function of that name, but does not look through what the outline knows the end of.
func (p *pruner) next(at int) (end int) {
	if at < len(p.text) && (p.text[at] == '{' || p.text[at] == '[') {
		if end, p.outline = p.outline.after(at); end > 0 {
			return end
		}
	}
	return next(p.text, at)
}

// walk calls read for each member of the object that begins at a place: with the name in its quotes and where the value
// begins. It must return where the value ends, or something negative to give up. So does walk; it gives up too if there is no
// object, or one that is not well written.
func walk(text []byte, at int, read func(name []byte, at int) int) (end int) {
	return between(text, at, '{', '}', func(at int) int {
		if at >= len(text) || text[at] != '"' {
			return -1
		}
		end := quoted(text, at)
		if end < 0 {
			return -1
		}
		name := text[at:end]
		at = space(text, end)
		if at >= len(text) || text[at] != ':' {
			return -1
		}
		return read(name, space(text, at+1))
	})
}

// walkList is walk for a list.
func walkList(text []byte, at int, read func(at int) int) (end int) {
	return between(text, at, '[', ']', read)
}

// between walks through what stands between two brackets, separated by commas.
func between(text []byte, at int, opening, closing byte, read func(at int) int) (end int) {
	if at >= len(text) || text[at] != opening {
		return -1
	}
	at = space(text, at+1)
	if at < len(text) && text[at] == closing {
		return at + 1
	}
	for {
		if at = read(at); at < 0 {
			return -1
		}
		at = space(text, at)
		switch {
		case at >= len(text):
			return -1
		case text[at] == closing:
			return at + 1
		case text[at] != ',':
			return -1
		}
		at = space(text, at+1)
	}
}

// space returns where something other than white space is.
func space(text []byte, at int) int {
	for at < len(text) && (text[at] == ' ' || text[at] == '\n' || text[at] == '\t' || text[at] == '\r') {
		at++
	}
	return at
}

// next returns where the value that begins at a place ends, negative if it does not.
func next(text []byte, at int) int {
	if at >= len(text) {
		return -1
	}
	switch text[at] {
	case '"':
		return quoted(text, at)
	case '{', '[':
		return nested(text, at)
	}
	begin := at
	for at < len(text) && !ends(text[at]) {
		at++
	}
	if at == begin || at == len(text) {
		return -1
	}
	return at
}

// ends tells whether a number or a literal is over.
func ends(c byte) bool {
	switch c {
	case ',', '}', ']', ' ', '\n', '\t', '\r', '{', '[', '"', ':':
		return true
	}
	return false
}

// outline tells where the objects and lists of a text begin and end, in the order in which they begin.
type outline []span

// span has room for maxBody.
type span struct{ begin, end int32 }

// after returns where the object or list that begins at a place ends, zero if that is not known, and what of the outline
// comes later.
func (o outline) after(at int) (end int, rest outline) {
	for len(o) > 0 && int(o[0].begin) < at {
		o = o[1:]
	}
	if len(o) == 0 || int(o[0].begin) > at {
		return 0, o
	}
	return int(o[0].end), o[1:]
}

// outlined is nested for the beginning of a text, and appends its outline to o.
func outlined(text []byte, o outline) (end int, known outline) {
	around := -1 // the innermost that is open; until it ends, its span tells which one is around it
	for at := 0; at < len(text); at++ {
		switch text[at] {
		case '"':
			if at = quoted(text, at); at < 0 {
				return -1, nil
			}
			at--
		case '{', '[':
			o = append(o, span{int32(at), int32(around)})
			around = len(o) - 1
		case '}', ']':
			inner := around
			around = int(o[inner].end)
			o[inner].end = int32(at + 1)
			if around < 0 {
				return at + 1, o
			}
		}
	}
	return -1, nil
}

// nested returns where the object or list that begins at a place ends, negative if it does not.
func nested(text []byte, at int) int {
	for depth := 0; at < len(text); at++ {
		switch text[at] {
		case '"':
			if at = quoted(text, at); at < 0 {
				return -1
			}
			at--
		case '{', '[':
			depth++
		case '}', ']':
			depth--
			if depth == 0 {
				return at + 1
			}
		}
	}
	return -1
}

// quoted returns where the string that begins at a place ends, negative if it does not.
func quoted(text []byte, at int) int {
	for at++; at < len(text); at++ {
		switch text[at] {
		case '"':
			return at + 1
		case '\\':
			at++
		}
	}
	return -1
}
