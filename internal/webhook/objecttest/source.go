// Package objecttest makes random objects for the fuzz targets of handlers, and checks the rules for every handler.
package objecttest

// Source makes values from the bytes of a fuzz target: the same bytes make the same values, and more bytes make larger ones.
type Source struct {
	bytes []byte
	// mayBeOdd is true for a quarter of the inputs: otherwise most large objects would contain an odd value. The field odd is true if the
	// Source has made an odd value.
	mayBeOdd, odd bool
}

// From returns a Source of these bytes.
func From(bytes []byte) *Source {
	s := &Source{bytes: bytes}
	s.mayBeOdd = s.Number(4) == 3
	return s
}

// IsInvalid reports whether the Source has made a value that no API server sends: of a wrong type, or null in a list or a map. Handlers may
// give any answer about such objects, but must not panic.
func (s *Source) IsInvalid() bool { return s.odd }

// Number returns a number from 0 to below-1; 0 if all bytes are used up.
func (s *Source) Number(below int) int {
	if len(s.bytes) == 0 {
		return 0
	}
	next := int(s.bytes[0])
	s.bytes = s.bytes[1:]
	return next % below
}

// Value makes a value from the bytes of a Source.
type Value func(s *Source) any

// Member is a member of an object: its name, and the Value that makes its value.
type Member struct {
	Name  string
	Value Value
}

// Text returns a Value that makes one of the given strings.
func Text(choices ...string) Value {
	return func(s *Source) any { return choices[s.Number(len(choices))] }
}

// Integer returns a Value that makes one of the given numbers.
func Integer(choices ...int64) Value {
	return func(s *Source) any { return choices[s.Number(len(choices))] }
}

// Bool makes true or false.
func Bool(s *Source) any { return s.Number(2) == 1 }

// Object returns a Value that makes an object. Each member may be present, absent or null; sometimes there is an unknown one.
func Object(members ...Member) Value {
	return func(s *Source) any {
		object := map[string]any{}
		for _, member := range members {
			switch kind := s.Number(32); {
			case kind < 8:
			case kind < 12:
				object[member.Name] = nil
			case kind == 31 && s.mayBeOdd:
				s.odd = true
				object[member.Name] = []any{map[string]any{}, "wrong", 3.5, true}[s.Number(4)]
			default:
				object[member.Name] = member.Value(s)
			}
		}
		if s.Number(4) == 3 {
			object["newerField"] = map[string]any{"list": []any{1, "two", nil, map[string]any{"a/b~c": ""}}}
		}
		return object
	}
}

// OneOf returns a Value that makes one of the given values, which callers must not change.
func OneOf(choices ...any) Value {
	return func(s *Source) any { return choices[s.Number(len(choices))] }
}

// List returns a Value that makes a list of up to five items; few are null.
func List(item Value) Value {
	return func(s *Source) any {
		list := make([]any, s.Number(6))
		for i := range list {
			list[i] = s.orNull(item)
		}
		return list
	}
}

// Map returns a Value that makes an object with some of the names; few values are null.
func Map(value Value, names ...string) Value {
	return func(s *Source) any {
		object := map[string]any{}
		for _, name := range names {
			if s.Number(2) == 1 {
				object[name] = s.orNull(value)
			}
		}
		return object
	}
}

func (s *Source) orNull(value Value) any {
	if s.Number(32) == 31 && s.mayBeOdd {
		s.odd = true
		return nil
	}
	return value(s)
}
