package extensionvalidation

import (
	"reflect"
	"slices"
	"strings"

	"k8s.io/apimachinery/pkg/api/equality"
	apivalidation "k8s.io/apimachinery/pkg/api/validation"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/util/validation/field"
)

// rules describe valid objects of a kind. Fields are named by their paths below spec, for example "secretRef.name".
type rules[Spec, Status any] struct {
	// kind is the kind in error texts; if empty, the kind in the object.
	kind schema.GroupKind
	// clusterWide is true for cluster-scoped kinds.
	clusterWide bool
	// shortLived is true for kinds whose objects exist for minutes: their deletion needs no confirmation.
	shortLived bool
	// required names texts and lists that must not be empty.
	required []string
	// immutable names fields that must not change. A field below a pointer may change if the pointer is nil in the old or the new object.
	immutable []string
	// requiredFields and immutableFields are the fields whose paths are in required and immutable. The constructor kind sets them.
	requiredFields, immutableFields []specField
	// check adds the errors of rules that the other fields cannot express; nil for none.
	check func(*object[Spec, Status], *findings)
	// freeze returns the error for a changed specification of an object that is being deleted.
	freeze func(now, before *Spec) *field.Error
}

// specPath and statusPath are functions, because there are no constants of the type *field.Path.
func specPath(names ...string) *field.Path { return field.NewPath("spec", names...) }

func statusPath(names ...string) *field.Path { return field.NewPath("status", names...) }

// specField is a field of a specification.
type specField struct {
	path *field.Path
	// indexes contains one index for reflect.Value.FieldByIndex for each name in the path.
	indexes [][]int
}

// fieldsOf returns the fields of a type by their paths. It panics if a field does not exist. In this case the table of kinds is wrong, and
// every test that reads the table fails.
func fieldsOf[Spec any](paths []string) []specField {
	found := make([]specField, 0, len(paths))
	for _, path := range paths {
		names := strings.Split(path, ".")
		at := specField{path: specPath(names...)}
		parent := reflect.TypeFor[Spec]()
		for _, name := range names {
			if parent.Kind() == reflect.Pointer {
				parent = parent.Elem()
			}
			fields := reflect.VisibleFields(parent)
			named := slices.IndexFunc(fields, func(f reflect.StructField) bool {
				tag, _, _ := strings.Cut(f.Tag.Get("json"), ",")
				return tag == name
			})
			at.indexes = append(at.indexes, fields[named].Index)
			parent = fields[named].Type
		}
		found = append(found, at)
	}
	return found
}

// of returns the field in a specification, which spec points to. It returns the zero Value if the field is below a pointer that is nil.
func (f specField) of(spec any) reflect.Value {
	value := reflect.ValueOf(spec)
	for _, index := range f.indexes {
		if value = reflect.Indirect(value); !value.IsValid() {
			return value
		}
		value = value.FieldByIndex(index)
	}
	return value
}

// validate returns the errors of a new object, or of an update if before is not nil. If an object is being deleted and its specification
// stays the same, validate checks only the change of the metadata: otherwise no finalizer could be removed from an object that is older
// than a rule.
func (r *rules[Spec, Status]) validate(now, before *object[Spec, Status]) field.ErrorList {
	var found findings
	if before != nil {
		found.metadataUpdate(&now.Metadata, &before.Metadata)
		switch deleting := now.Metadata.DeletionTimestamp != nil; {
		case !deleting:
			r.keep(&now.Spec, &before.Spec, &found)
		case equality.Semantic.DeepEqual(&now.Spec, &before.Spec):
			return found.list
		default:
			found.add(r.freeze(&now.Spec, &before.Spec))
		}
	}
	found.metadata(&now.Metadata, !r.clusterWide)
	for _, each := range r.requiredFields {
		value := each.of(&now.Spec)
		found.requireIf(!value.IsValid() || value.Len() == 0, each.path)
	}
	if r.check != nil {
		r.check(now, &found)
	}
	return found.list
}

// keep adds an error for every immutable field that changed. Nil and empty lists and maps are equal, nil and empty pointers are not.
func (r *rules[Spec, Status]) keep(now, before *Spec, found *findings) {
	for _, each := range r.immutableFields {
		if value, old := each.of(now), each.of(before); value.IsValid() && old.IsValid() {
			found.add(apivalidation.ValidateImmutableField(value.Interface(), old.Interface(), each.path)...)
		}
	}
}

// freezeListing returns an error that names the changed fields.
func freezeListing[Spec any](now, before *Spec) *field.Error {
	return field.Forbidden(specPath(), strings.Join(differences(now, before), ","))
}

// freezeShowing returns an error that contains the new specification.
func freezeShowing[Spec any](now, _ *Spec) *field.Error {
	return field.Invalid(specPath(), now, apivalidation.FieldImmutableErrorMsg)
}
