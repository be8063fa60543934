package config

import (
	"encoding/json"
	"fmt"
	"maps"
	"reflect"
	"slices"
	"strings"

	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// decoder decodes a document into a typed configuration. Unlike encoding/json it continues after a mistake, so that users see all mistakes
// at once, and it reports every field with its line.
type decoder struct {
	doc      *document
	warnings []Warning
	errs     []error
}

// decode sets the fields of target, a pointer to a struct, and returns warnings and errors about what it could not decode.
func decode(doc *document, target any) ([]Warning, []error) {
	d := &decoder{doc: doc}
	if doc.tree == nil {
		return nil, nil
	}
	d.value(doc.tree, reflect.ValueOf(target).Elem(), nil)
	return d.warnings, d.errs
}

// value sets target to the value of the file at the path. Null leaves the target unset, except for restrictions: there it is an error,
// because a missing restriction would allow the process more.
func (d *decoder) value(from any, target reflect.Value, at path) {
	if from == nil || from == "" && isChoice(at) {
		if isRestriction(at) {
			d.fail(at, noValue(at))
		}
		return
	}
	if decodesItself(target) {
		d.leaf(from, target, at)
		return
	}
	switch target.Kind() {
	case reflect.Pointer:
		target.Set(reflect.New(target.Type().Elem()))
		d.value(from, target.Elem(), at)
	case reflect.Struct:
		d.structure(from, target, at)
	case reflect.Slice:
		d.list(from, target, at)
	case reflect.Map:
		d.mapping(from, target, at)
	default:
		d.leaf(from, target, at)
	}
}

func (d *decoder) structure(from any, target reflect.Value, at path) {
	fields, ok := from.(map[string]any)
	if !ok {
		d.fail(at, "must be an object, not "+describe(from))
		return
	}
	known := fieldsByName(target)
	for _, name := range slices.Sorted(maps.Keys(fields)) {
		field, ok := known[name]
		switch {
		case ok:
			d.value(fields[name], field, at.child(name))
		case holdsRestrictions(at):
			d.fail(at.child(name), "unknown field; this section holds restrictions, and one that is not understood cannot be kept")
		default:
			warning := d.doc.warn(d.doc.inFile(at.child(name)), "unknown field, ignored")
			warning.Mistake = true
			d.warnings = append(d.warnings, warning)
		}
	}
}

func (d *decoder) list(from any, target reflect.Value, at path) {
	items, ok := from.([]any)
	if !ok {
		d.fail(at, "must be a list, not "+describe(from))
		return
	}
	target.Set(reflect.MakeSlice(target.Type(), len(items), len(items)))
	for i := range items {
		d.value(items[i], target.Index(i), at.item(i))
	}
}

// mapping decodes the values of a map one by one if they have a format of their own, so that an error names the key.
func (d *decoder) mapping(from any, target reflect.Value, at path) {
	fields, ok := from.(map[string]any)
	if !ok || !decodesItself(reflect.New(target.Type().Elem()).Elem()) {
		d.leaf(from, target, at)
		return
	}
	target.Set(reflect.MakeMap(target.Type()))
	for _, key := range slices.Sorted(maps.Keys(fields)) {
		value := reflect.New(target.Type().Elem()).Elem()
		if fields[key] == nil {
			d.fail(at.child(key), "has no value")
			continue
		}
		d.leaf(fields[key], value, at.child(key))
		target.SetMapIndex(reflect.ValueOf(key).Convert(target.Type().Key()), value)
	}
}

func (d *decoder) leaf(from any, target reflect.Value, at path) {
	raw, err := json.Marshal(from)
	if err == nil {
		err = json.Unmarshal(raw, target.Addr().Interface())
	}
	if err != nil {
		d.fail(at, "must be "+expected(target)+", not "+describe(from))
	}
}

func (d *decoder) fail(at path, message string) { d.errs = append(d.errs, d.doc.mistake(at, message)) }

// isRestriction reports whether a field restricts what a process may do, so that an empty value must never mean "no restriction".
func isRestriction(at path) bool {
	field := at.String() + "."
	return strings.HasPrefix(field, "espalier.managedResource.namespaces.") || strings.HasPrefix(field, "espalier.csrApprover.") ||
		isChoice(at)
}

// isChoice reports whether a field is a restriction with a single value, for which an empty value is invalid.
func isChoice(at path) bool {
	return slices.Contains([]string{"espalier.project.staleDeletion", "espalier.project.maxProjectsPerCreator"}, at.String())
}

// noValue returns the remedy for a restriction without a value.
func noValue(at path) string {
	const message = "has no value; remove the key to restrict nothing"
	if isChoice(at) {
		return message
	}
	if at.String() == "espalier.managedResource.namespaces.setSelector" {
		return "has no value; write a selector, or remove the key, so that only sets restricts"
	}
	return message + ", or write an empty list to allow nothing"
}

// holdsRestrictions reports whether a section contains restrictions, so that an unknown field is an error and not a warning.
func holdsRestrictions(at path) bool {
	section := at.String() + "."
	return slices.ContainsFunc([]string{"managedResource", "csrApprover", "networkPolicy", "project", "token"}, func(family string) bool {
		return strings.HasPrefix(section, "espalier."+family+".")
	})
}

func decodesItself(target reflect.Value) bool {
	_, ok := reflect.TypeAssert[json.Unmarshaler](target.Addr())
	return ok
}

// fieldsByName returns the fields of a struct by their JSON names, including those of inlined structs.
func fieldsByName(target reflect.Value) map[string]reflect.Value {
	fields := map[string]reflect.Value{}
	for i := range target.NumField() {
		name, options, _ := strings.Cut(target.Type().Field(i).Tag.Get("json"), ",")
		switch {
		case name == "" && (strings.Contains(options, "inline") || target.Type().Field(i).Anonymous):
			maps.Copy(fields, fieldsByName(target.Field(i)))
		case name != "" && name != "-":
			fields[name] = target.Field(i)
		}
	}
	return fields
}

// expected describes, for the user, which values a field accepts.
func expected(target reflect.Value) string {
	switch target.Type() {
	case reflect.TypeFor[metav1.Duration]():
		return `a duration such as "30s" or "1h"`
	case reflect.TypeFor[resource.Quantity]():
		return `a quantity such as "5" or "10Gi"`
	default: // Other types are described by their kind.
	}
	switch target.Kind() {
	case reflect.Bool:
		return "true or false"
	case reflect.Int, reflect.Int32, reflect.Int64:
		return fmt.Sprintf("a whole number of at most %d bits", target.Type().Bits())
	case reflect.Float32, reflect.Float64:
		return "a number"
	case reflect.Map:
		return "an object whose values are strings"
	default:
		return "a string"
	}
}

// describe describes, for the user, a value of the file: short values literally, others by their kind.
func describe(from any) string {
	const longest = 60
	switch value := from.(type) {
	case map[string]any:
		return "an object"
	case []any:
		return "a list"
	case string:
		if len(value) > longest {
			return "a long string"
		}
		return fmt.Sprintf("%q", value)
	default:
		return fmt.Sprint(value)
	}
}
