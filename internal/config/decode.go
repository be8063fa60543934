package config

import (
	"encoding/json"
	"errors"
	"fmt"
	"reflect"
	"slices"
	"strings"

	jsonv2 "github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// decode returns the document as a configuration, with warnings and errors about fields that it could not decode. The library stops
// at the first mistake. Each mistake is removed from the document, which is then decoded again, so that users see all of them at
// once.
func decode[C any](doc *document) (c *C, warnings []Warning, errs []error) {
	for {
		var missing []error
		c = new(C)
		err := doc.unmarshal(c, &missing)
		if err == nil {
			return c, warnings, append(errs, missing...)
		}
		mistake, ok := errors.AsType[*jsonv2.SemanticError](err)
		if !ok {
			return nil, nil, append(errs, err)
		}
		section, _, _ := doc.find(mistake.JSONPointer.Parent())
		at, value, remove := doc.find(mistake.JSONPointer)
		remove()
		switch {
		case !errors.Is(mistake, jsonv2.ErrUnknownName):
			errs = append(errs, doc.mistake(at, "must be "+expected(mistake.GoType)+", not "+describe(value)))
		case holdsRestrictions(section):
			errs = append(errs,
				doc.mistake(at, "unknown field; this section holds restrictions, and one that is not understood cannot be kept"))
		default:
			warnings = append(warnings, Warning{Path: doc.inFile(at), Message: "unknown field, ignored", Mistake: true})
		}
	}
}

// unmarshal decodes the document into a pointer to a configuration. Null leaves a field unset, except for restrictions and quantities:
// there null is an error. A missing restriction would allow the process more. After such an error, unmarshal continues: it adds the error
// to missing.
func (d *document) unmarshal(into any, missing *[]error) error {
	encoded, err := json.Marshal(d.tree)
	if err != nil {
		return fmt.Errorf("encode file: %w", err)
	}
	null := func(from *jsontext.Decoder, target any) error {
		if from.PeekKind() != jsontext.KindNull {
			return errors.ErrUnsupported // The next function, or the library, decodes the value.
		}
		_, failure := from.ReadToken()
		at, value, _ := d.find(from.StackPointer())
		if _, isQuantity := target.(*resource.Quantity); isQuantity {
			*missing = append(*missing, d.mistake(at, "has no value"))
		} else if value == nil && isRestriction(at) {
			*missing = append(*missing, d.mistake(at, noValue(at)))
		}
		return failure
	}
	return jsonv2.Unmarshal(encoded, into, jsonv2.RejectUnknownMembers(true), jsonv2.WithUnmarshalers(jsonv2.JoinUnmarshalers(
		jsonv2.UnmarshalFromFunc(null), jsonv2.UnmarshalFunc(whole[map[string]string]), jsonv2.UnmarshalFunc(whole[map[string]bool]))))
}

// whole decodes a map at once, so that an error names the map and not one of its keys.
func whole[M map[string]string | map[string]bool](encoded []byte, into *M) error {
	return json.Unmarshal(encoded, into)
}

// isRestriction reports whether a field restricts the process, so that an empty value must never mean "no restriction".
func isRestriction(at string) bool {
	field := at + "."
	return strings.HasPrefix(field, "espalier.managedResource.namespaces.") || strings.HasPrefix(field, "espalier.csrApprover.") ||
		slices.Contains(choices(), at)
}

// choices returns the paths of the restrictions that have a single value. An empty value of them is invalid.
func choices() []string {
	return []string{
		"espalier.project.staleDeletion", "espalier.project.maxProjectsPerCreator", "espalier.extension.chartPolicy.signatureKeys",
		"espalier.managedResource.serviceAccounts", "espalier.managedResource.serviceAccounts.lockdown",
		"espalier.managedResource.serviceAccounts.default", "espalier.managedResource.serviceAccounts.byNamespace",
		"espalier.managedResource.deletionLimit",
	}
}

// noValue returns the remedy for a restriction without a value.
func noValue(at string) string {
	const message = "has no value; remove the key to restrict nothing"
	if slices.Contains(choices(), at) {
		return message
	}
	if at == "espalier.managedResource.namespaces.setSelector" {
		return "has no value; write a selector, or remove the key, so that only sets restricts"
	}
	return message + ", or write an empty list to allow nothing"
}

// holdsRestrictions reports whether a section contains restrictions, so that an unknown field is an error and not a warning.
func holdsRestrictions(at string) bool {
	section := at + "."
	families := []string{"managedResource", "csrApprover", "networkPolicy", "project", "token", "extension"}
	return slices.ContainsFunc(families, func(family string) bool { return strings.HasPrefix(section, "espalier."+family+".") })
}

// expected describes, for the user, which values a type accepts.
func expected(target reflect.Type) string {
	if target.Kind() == reflect.Pointer {
		target = target.Elem()
	}
	switch target {
	case reflect.TypeFor[metav1.Duration]():
		return `a duration such as "30s" or "1h"`
	case reflect.TypeFor[resource.Quantity]():
		return `a quantity such as "5" or "10Gi"`
	case reflect.TypeFor[metav1.Time]():
		return "a string"
	case reflect.TypeFor[[]byte]():
		return "a string in base64"
	default: // Other types are described by their kind.
	}
	switch target.Kind() {
	case reflect.Bool:
		return "true or false"
	case reflect.Int, reflect.Int32, reflect.Int64:
		return fmt.Sprintf("a whole number of at most %d bits", target.Bits())
	case reflect.Float32, reflect.Float64:
		return "a number"
	case reflect.Map:
		return "an object whose values are strings"
	case reflect.Struct:
		return "an object"
	case reflect.Slice:
		return "a list"
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
