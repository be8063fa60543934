package applier_test

import (
	"fmt"
	"maps"
	"reflect"
	"slices"
	"strings"

	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/util/intstr"
)

// edit is a change that another client makes to an object, as an operation of a JSON patch: add, replace or remove.
type edit struct {
	op    string
	path  []any // names of fields and positions in lists
	value any
}

// at returns the path of the edit, such as spec.ports[0].name.
func (e edit) at() string {
	var path strings.Builder
	for i, each := range e.path {
		switch typed := each.(type) {
		case int:
			fmt.Fprintf(&path, "[%d]", typed)
		case string:
			if i > 0 {
				path.WriteByte('.')
			}
			path.WriteString(typed)
		}
	}
	return path.String()
}

// hasManager reports whether the client that makes the edit owns a field afterwards, if the edit is made by Update or as a patch.
func (e edit) hasManager() bool {
	return e.op != "remove" && !reflect.ValueOf(e.value).IsZero() && reflect.TypeOf(e.value).Kind() != reflect.Slice
}

func (e edit) String() string { return fmt.Sprintf("%s %s %#v", e.op, e.at(), e.value) }

// patch returns the edit as an operation of a JSON patch.
func (e edit) patch() map[string]any {
	var pointer strings.Builder
	for _, each := range e.path {
		pointer.WriteString("/" + strings.NewReplacer("~", "~0", "/", "~1").Replace(fmt.Sprint(each)))
	}
	return map[string]any{"op": e.op, "path": pointer.String(), "value": e.value}
}

// change makes the edit in an object.
func (e edit) change(value any) any { return changeAt(value, e.path, e) }

func changeAt(value any, path []any, e edit) any {
	if len(path) == 0 {
		return runtime.DeepCopyJSONValue(e.value)
	}
	switch at := path[0].(type) {
	case string:
		fields, _ := value.(map[string]any)
		if len(path) == 1 && e.op == "remove" {
			delete(fields, at)
			return fields
		}
		if fields == nil {
			fields = map[string]any{}
		}
		fields[at] = changeAt(fields[at], path[1:], e)
		return fields
	case int:
		items, _ := value.([]any)
		switch {
		case at >= len(items) && e.op != "add" || at > len(items):
			return items
		case len(path) == 1 && e.op == "remove":
			return slices.Delete(items, at, at+1)
		case len(path) == 1 && e.op == "add":
			return slices.Insert(items, at, runtime.DeepCopyJSONValue(e.value))
		}
		items[at] = changeAt(items[at], path[1:], e)
		return items
	}
	return value
}

// editsOf returns all edits of an object as the API server stores it. example has the Go type of its kind; nil if there is none.
func editsOf(object map[string]any, example runtime.Object) []edit {
	var kind reflect.Type
	if example != nil {
		kind = reflect.TypeOf(example).Elem()
	}
	var edits []edit
	for _, name := range slices.Sorted(maps.Keys(object)) {
		switch name {
		case "apiVersion", "kind", "status":
			continue
		case "metadata":
			metadata, _ := object[name].(map[string]any)
			for _, part := range []string{"annotations", "labels"} {
				if texts, isMap := metadata[part].(map[string]any); isMap {
					edits = append(edits, editsBelow(texts, reflect.TypeFor[map[string]string](), []any{name, part})...)
				}
			}
			continue
		}
		edits = append(edits, editsBelow(object[name], fieldType(kind, name), []any{name})...)
	}
	for _, each := range additions(object, kind, nil) {
		if name := each.path[0]; name != "metadata" && name != "status" {
			edits = append(edits, each)
		}
	}
	return edits
}

func editsBelow(value any, kind reflect.Type, path []any) []edit {
	at := func(element any) []any { return append(slices.Clone(path), element) }
	var edits []edit
	if value != nil { // an object without a field is equal to an object with null there
		edits = append(edits, edit{op: "remove", path: path})
	}
	replace := func(values ...any) {
		for _, each := range values {
			edits = append(edits, edit{op: "replace", path: path, value: each})
		}
	}
	switch typed := value.(type) {
	case map[string]any:
		for _, name := range slices.Sorted(maps.Keys(typed)) {
			edits = append(edits, editsBelow(typed[name], fieldType(kind, name), at(name))...)
		}
		edits = append(edits, additions(typed, kind, path)...)
	case []any:
		for i, item := range typed {
			edits = append(edits, editsBelow(item, itemType(kind), at(i))...)
			edits = append(edits, edit{op: "add", path: at(len(typed)), value: item}, edit{op: "add", path: at(i), value: item})
		}
		if len(typed) > 0 {
			edits = append(edits, edit{op: "add", path: at(len(typed)), value: renamed(typed[0])})
		}
		for _, each := range zeroValues(itemType(kind)) {
			edits = append(edits, edit{op: "add", path: at(0), value: each})
		}
		if len(typed) > 1 {
			replace(append(slices.Clone(typed[1:]), typed[0]))
		}
	case string:
		replace(typed+"x", "")
	case bool:
		replace(!typed)
	case int64:
		replace(typed+1, int64(0))
	case float64:
		replace(typed + 1)
	}
	return edits
}

// additions returns edits that add a field to a map: each one of its Go type that it lacks, or an unknown one.
func additions(object map[string]any, kind reflect.Type, path []any) []edit {
	var edits []edit
	add := func(name string, values []any) {
		for _, each := range values {
			edits = append(edits, edit{op: "add", path: append(slices.Clone(path), name), value: each})
		}
	}
	kind = pointed(kind)
	if kind == nil || kind.Kind() != reflect.Struct {
		add("added", zeroValues(itemType(kind)))
		return edits
	}
	for _, field := range reflect.VisibleFields(kind) {
		name, _, _ := strings.Cut(field.Tag.Get("json"), ",")
		if _, found := object[name]; !found && name != "" && name != "-" {
			add(name, zeroValues(field.Type))
		}
	}
	return edits
}

// zeroValues returns values of a type, empty ones among them.
func zeroValues(kind reflect.Type) []any {
	kind = pointed(kind)
	if kind == nil {
		return []any{map[string]any{}, []any{}, "", int64(0), false, "x", map[string]any{"a": "x"}}
	}
	switch kind {
	case reflect.TypeFor[resource.Quantity]():
		return []any{"0", "1"}
	case reflect.TypeFor[intstr.IntOrString]():
		return []any{int64(0), "x"}
	case reflect.TypeFor[metav1.Time](), reflect.TypeFor[metav1.MicroTime]():
		return nil
	}
	switch kind.Kind() { //nolint:exhaustive // objects of the API have no fields of other kinds
	case reflect.Struct:
		return []any{map[string]any{}}
	case reflect.Map:
		values := []any{map[string]any{}}
		for _, each := range zeroValues(kind.Elem()) {
			values = append(values, map[string]any{"a": each})
		}
		return values
	case reflect.Slice:
		if kind.Elem().Kind() == reflect.Uint8 {
			return []any{"", "eA=="}
		}
		values := []any{[]any{}}
		for _, each := range zeroValues(kind.Elem()) {
			values = append(values, []any{each})
		}
		return values
	case reflect.String:
		return []any{"", "x"}
	case reflect.Bool:
		return []any{false, true}
	case reflect.Int32, reflect.Int64:
		return []any{int64(0), int64(1)}
	}
	return nil
}

func pointed(kind reflect.Type) reflect.Type {
	for kind != nil && kind.Kind() == reflect.Pointer {
		kind = kind.Elem()
	}
	return kind
}

// fieldType returns the type of a field of a struct, or of the values of a map; nil if it is not known.
func fieldType(kind reflect.Type, name string) reflect.Type {
	kind = pointed(kind)
	if kind == nil || kind.Kind() != reflect.Struct {
		return itemType(kind)
	}
	for _, field := range reflect.VisibleFields(kind) {
		if each, _, _ := strings.Cut(field.Tag.Get("json"), ","); each == name {
			return field.Type
		}
	}
	return nil
}

// itemType returns the type of the items of a list or map; nil if it is not known.
func itemType(kind reflect.Type) reflect.Type {
	kind = pointed(kind)
	if kind == nil || kind.Kind() != reflect.Slice && kind.Kind() != reflect.Map {
		return nil
	}
	return kind.Elem()
}

// renamed returns a copy of a list item with another key.
func renamed(item any) any {
	switch typed := runtime.DeepCopyJSONValue(item).(type) {
	case map[string]any:
		for name, value := range typed {
			switch key := value.(type) {
			case string:
				if slices.Contains([]string{"name", "id", "key", "mountPath", "ip", "host"}, name) {
					typed[name] = key + "x"
				}
			case int64:
				if slices.Contains([]string{"port", "containerPort"}, name) {
					typed[name] = key + 1
				}
			}
		}
		return typed
	case string:
		return typed + "x"
	case int64:
		return typed + 1
	default:
		return item
	}
}
