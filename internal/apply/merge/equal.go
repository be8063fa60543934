package merge

import (
	"fmt"
	"slices"
)

// itemKeys returns the fields that identify items in lists of the Kubernetes API, in order of preference.
func itemKeys() []string {
	return []string{"name", "key", "containerPort", "port", "mountPath", "devicePath", "ip", "topologyKey", "type", "id"}
}

// maxKeyLength is the length of the longest key value that may become part of a path.
const maxKeyLength = 253

// itemKey returns the first of the itemKeys that every item of both lists has, with no value twice in one list. It returns "" if there is
// no such field.
func itemKey(live, merged []any) string {
	for _, key := range itemKeys() {
		if isKey(live, key) && isKey(merged, key) {
			return key
		}
	}
	return ""
}

func isKey(items []any, key string) bool {
	seen := make(map[string]bool, len(items))
	for _, item := range items {
		fields, isMap := item.(map[string]any)
		if !isMap {
			return false
		}
		text, isText := fields[key].(string)
		_, isNumber := asNumber(fields[key])
		value := keyValue(item, key)
		if (!isText || text == "") && !isNumber || len(value) > maxKeyLength || seen[value] {
			return false
		}
		seen[value] = true
	}
	return true
}

// keyValue returns the value of the key of an item as text.
func keyValue(item any, key string) string {
	fields, _ := item.(map[string]any)
	return fmt.Sprint(fields[key])
}

// equalLeaves compares two values as the API server understands them.
func equalLeaves(live, merged side) bool {
	liveValue, mergedValue := live.value(), merged.value()
	if live.known && isEmptyList(liveValue) && isEmptyList(mergedValue) {
		return true
	}
	return equalValues(liveValue, mergedValue)
}

// equalValues compares two JSON-compatible values. Null equals missing. The type of a number does not matter.
func equalValues(a, b any) bool {
	switch typed := a.(type) {
	case map[string]any:
		other, isMap := b.(map[string]any)
		return isMap && equalMaps(typed, other)
	case []any:
		other, isList := b.([]any)
		return isList && slices.EqualFunc(typed, other, equalValues)
	}
	return equalScalars(a, b)
}

func equalMaps(a, b map[string]any) bool {
	for name, value := range a {
		if !equalValues(value, b[name]) {
			return false
		}
	}
	for name, value := range b {
		if _, both := a[name]; !both && value != nil {
			return false
		}
	}
	return true
}

// equalScalars compares null, text, booleans and numbers. Maps and lists are never equal.
func equalScalars(a, b any) bool {
	switch typed := a.(type) {
	case nil, string, bool:
		return a == b
	case int64:
		if other, isWhole := b.(int64); isWhole {
			return typed == other
		}
	}
	number, isNumber := asNumber(a)
	other, isOtherNumber := asNumber(b)
	return isNumber && isOtherNumber && number == other
}

func isEmptyList(value any) bool {
	list, isList := value.([]any)
	return value == nil || isList && len(list) == 0
}

// isZero reports whether a value is a zero value, which Go types leave out when they are encoded.
func isZero(value any) bool {
	if truth, isBool := value.(bool); isBool {
		return !truth
	}
	number, isNumber := asNumber(value)
	return isEmpty(value) || isNumber && number == 0
}
