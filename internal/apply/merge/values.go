package merge

import (
	"fmt"
	"strings"
)

// The functions of this file read and write JSON-compatible values of unknown shape. Null counts as missing.

// mapAt returns the map at a path, nil if the map or a part of the path is missing.
func mapAt(object map[string]any, path ...string) (map[string]any, error) {
	return walk(object, false, path)
}

// ensureMap returns the map at a path and creates the missing maps of the path.
func ensureMap(object map[string]any, path ...string) (map[string]any, error) {
	return walk(object, true, path)
}

func walk(object map[string]any, create bool, path []string) (map[string]any, error) {
	for i, field := range path {
		if object[field] == nil {
			if !create {
				return nil, nil
			}
			object[field] = map[string]any{}
		}
		next, ok := object[field].(map[string]any)
		if !ok {
			return nil, fmt.Errorf("%s: %w", strings.Join(path[:i+1], "."), wrongType(object[field], "an object"))
		}
		object = next
	}
	return object, nil
}

// listAt returns the list at a path, nil if it is missing.
func listAt(object map[string]any, path ...string) ([]any, error) {
	parent, err := mapAt(object, path[:len(path)-1]...)
	if err != nil {
		return nil, err
	}
	value := parent[path[len(path)-1]]
	list, ok := value.([]any)
	if !ok && value != nil {
		return nil, fmt.Errorf("%s: %w", strings.Join(path, "."), wrongType(value, "a list"))
	}
	return list, nil
}

// mapsAt returns the items of the list at a path. It returns an error if an item is not a map.
func mapsAt(object map[string]any, path ...string) ([]map[string]any, error) {
	list, err := listAt(object, path...)
	if err != nil {
		return nil, err
	}
	items := make([]map[string]any, 0, len(list))
	for i, item := range list {
		typed, ok := item.(map[string]any)
		if !ok {
			return nil, fmt.Errorf("%s[%d]: %w", strings.Join(path, "."), i, wrongType(item, "an object"))
		}
		items = append(items, typed)
	}
	return items, nil
}

// textsAt returns a copy of the map of texts at a path, nil if it is missing.
func textsAt(object map[string]any, path ...string) (map[string]string, error) {
	values, err := mapAt(object, path...)
	if values == nil || err != nil {
		return nil, err
	}
	texts := make(map[string]string, len(values))
	for key, value := range values {
		text, ok := value.(string)
		if !ok {
			return nil, fmt.Errorf("%s[%q]: %w", strings.Join(path, "."), key, wrongType(value, "text"))
		}
		texts[key] = text
	}
	return texts, nil
}

// textAt returns the text in a field, "" if it is missing.
func textAt(object map[string]any, field string) (string, error) {
	text, ok := object[field].(string)
	if !ok && object[field] != nil {
		return "", fmt.Errorf("%s: %w", field, wrongType(object[field], "text"))
	}
	return text, nil
}

// numberAt returns the number in a field, 0 if it is missing.
func numberAt(object map[string]any, field string) (float64, error) {
	number, ok := asNumber(object[field])
	if !ok && object[field] != nil {
		return 0, fmt.Errorf("%s: %w", field, wrongType(object[field], "a number"))
	}
	return number, nil
}

func asNumber(value any) (float64, bool) {
	switch typed := value.(type) {
	case int64:
		return float64(typed), true
	case float64:
		return typed, true
	case int:
		return float64(typed), true
	}
	return 0, false
}

// wrongType returns an error with the actual and the expected type, but without the value, which may be secret.
func wrongType(value any, want string) error {
	var is string
	switch value.(type) {
	case nil:
		is = "null"
	case map[string]any:
		is = "an object"
	case []any:
		is = "a list"
	case string:
		is = "text"
	case bool:
		is = "a boolean"
	default:
		is = "a number"
	}
	return fmt.Errorf("is %s, but must be %s", is, want)
}

// isEmpty reports whether a value is missing, null, or an empty map, list or text.
func isEmpty(value any) bool {
	switch typed := value.(type) {
	case nil:
		return true
	case map[string]any:
		return len(typed) == 0
	case []any:
		return len(typed) == 0
	case string:
		return typed == ""
	}
	return false
}

// untyped converts a map of texts to its form inside an object.
func untyped(texts map[string]string) map[string]any {
	values := make(map[string]any, len(texts))
	for key, text := range texts {
		values[key] = text
	}
	return values
}
