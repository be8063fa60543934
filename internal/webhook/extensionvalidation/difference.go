package extensionvalidation

import (
	"encoding/json"
	"fmt"
	"maps"
	"reflect"
	"slices"
	"strconv"

	"k8s.io/apimachinery/pkg/api/equality"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
)

// maxDifferences is the maximum number of differences in one text.
const maxDifferences = 10

// differences returns the first 10 fields in which two values of one type differ, each as "<path>: <now> != <before>", in the order of
// fields and of keys. The paths consist of Go names. This is the format of github.com/go-test/deep, which Gardener uses. Semantically
// equal values count as equal. Values that may contain secrets are not shown.
func differences[T any](now, before *T) []string {
	c := comparison{}
	c.compare("", reflect.ValueOf(now).Elem(), reflect.ValueOf(before).Elem())
	return c.found
}

type comparison struct{ found []string }

func (c *comparison) compare(path string, now, before reflect.Value) {
	if len(c.found) == maxDifferences || equality.Semantic.DeepEqual(now.Interface(), before.Interface()) {
		return
	}
	if isWhole(now) {
		c.add(path, show(now), show(before))
		return
	}
	switch now.Kind() {
	case reflect.Pointer:
		c.comparePointers(path, now, before)
	case reflect.Struct:
		for i := range now.NumField() {
			c.compare(join(path, now.Type().Field(i).Name), now.Field(i), before.Field(i))
		}
	case reflect.Slice:
		c.compareSlices(path, now, before)
	case reflect.Map:
		c.compareMaps(path, now, before)
	default:
		c.add(path, show(now), show(before))
	}
}

func (c *comparison) comparePointers(path string, now, before reflect.Value) {
	const nothing = "<nil pointer>"
	switch kind := nameOf(now.Type().Elem()); {
	case now.IsNil():
		c.add(path, nothing, kind)
	case before.IsNil():
		c.add(path, kind, nothing)
	default:
		c.compare(path, now.Elem(), before.Elem())
	}
}

func (c *comparison) compareSlices(path string, now, before reflect.Value) {
	const none, absent = "<nil slice>", "<no value>"
	if now.IsNil() || before.IsNil() {
		c.add(path, showOr(now, none), showOr(before, none))
		return
	}
	for i := range max(now.Len(), before.Len()) {
		item := join(path, "slice["+strconv.Itoa(i)+"]")
		switch {
		case i >= now.Len():
			c.add(item, absent, show(before.Index(i)))
		case i >= before.Len():
			c.add(item, show(now.Index(i)), absent)
		default:
			c.compare(item, now.Index(i), before.Index(i))
		}
	}
}

func (c *comparison) compareMaps(path string, now, before reflect.Value) {
	const none, absent = "<nil map>", "<does not have key>"
	if now.IsNil() || before.IsNil() {
		c.add(path, showOr(now, none), showOr(before, none))
		return
	}
	keys := map[string]reflect.Value{}
	for _, key := range slices.Concat(now.MapKeys(), before.MapKeys()) {
		keys[key.String()] = key
	}
	for _, name := range slices.Sorted(maps.Keys(keys)) {
		item := join(path, "map["+cut(name, maxValue)+"]")
		value, old := now.MapIndex(keys[name]), before.MapIndex(keys[name])
		switch {
		case !value.IsValid():
			c.add(item, absent, show(old))
		case !old.IsValid():
			c.add(item, show(value), absent)
		default:
			c.compare(item, value, old)
		}
	}
}

func (c *comparison) add(path, now, before string) {
	if len(c.found) < maxDifferences {
		c.found = append(c.found, path+": "+cut(now, maxValue)+" != "+cut(before, maxValue))
	}
}

func join(path, name string) string {
	if path == "" {
		return name
	}
	return path + "." + name
}

// isWhole reports whether a struct or list is compared and shown as one value.
func isWhole(value reflect.Value) bool {
	switch value.Interface().(type) {
	case quantity, metav1.Time, opaqueBytes, opaqueExtension:
		return true
	}
	return false
}

// nameOf returns the name that texts use for a type. For a type that hides its value it is the name of the wrapped type.
func nameOf(shown reflect.Type) string {
	switch shown {
	case reflect.TypeFor[opaqueExtension]():
		return reflect.TypeFor[runtime.RawExtension]().String()
	case reflect.TypeFor[opaqueText]():
		return reflect.TypeFor[string]().String()
	default:
		return shown.String()
	}
}

func showOr(value reflect.Value, none string) string {
	if value.IsNil() {
		return none
	}
	return show(value)
}

// show formats plain values, and lists and maps of plain values, like package fmt, and other values as JSON.
func show(value reflect.Value) string {
	if _, hidden := reflect.TypeAssert[opaqueExtension](value); hidden {
		return concealed
	}
	kind := value.Kind()
	if kind == reflect.Slice || kind == reflect.Map {
		kind = value.Type().Elem().Kind()
	}
	switch kind {
	case reflect.Struct, reflect.Pointer, reflect.Slice, reflect.Map, reflect.Interface:
		encoded, err := json.Marshal(value.Interface())
		if err != nil { // a providerConfig that is not JSON
			return value.Type().String()
		}
		return string(encoded)
	default:
		return fmt.Sprint(value)
	}
}
