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

// rules are what objects of a kind must keep to. Fields are named by their paths below spec, as in "secretRef.name".
type rules[Spec, Status any] struct {
	// kind names the kind in refusals; if empty, the object's own does.
	kind schema.GroupKind
	// clusterWide is true for kinds whose objects are in no namespace.
	clusterWide bool
	// required are texts and lists that must not be empty.
	required []string
	// immutable are fields that must not change. One below a pointer may if the pointer is nil before or afterwards.
	immutable []string
	// check finds what else is wrong with an object by itself; nil for nothing.
	check func(*object[Spec, Status], *findings)
	// freeze says that the specification must not change because its object is being deleted.
	freeze func(now, before *Spec) *field.Error
}

// specPath and its like are functions, because packages have no constants of this type.
func specPath(names ...string) *field.Path { return field.NewPath("spec", names...) }

func statusPath(names ...string) *field.Path { return field.NewPath("status", names...) }

// fieldOf returns a field of a specification; the zero Value if it is below a pointer that is nil. The field must exist: tests
// read every field that rules name.
func fieldOf(spec any, names []string) reflect.Value {
	value := reflect.ValueOf(spec)
	for _, name := range names {
		if value = reflect.Indirect(value); !value.IsValid() {
			return value
		}
		fields := reflect.VisibleFields(value.Type())
		named := slices.IndexFunc(fields, func(f reflect.StructField) bool {
			tag, _, _ := strings.Cut(f.Tag.Get("json"), ",")
			return tag == name
		})
		value = value.FieldByIndex(fields[named].Index)
	}
	return value
}

// validate lists what is wrong with a new object, or with a change if there was one before. An object that is being deleted and
// whose specification stays may be invalid, or else an object from before a rule could never get rid of its finalizers.
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
	for _, path := range r.required {
		names := strings.Split(path, ".")
		found.requireIf(fieldOf(&now.Spec, names).Len() == 0, specPath(names...))
	}
	if r.check != nil {
		r.check(now, &found)
	}
	return found.list
}

// keep finds what changed although it must not. Nil and empty lists and maps are the same, nil and empty pointers are not.
func (r *rules[Spec, Status]) keep(now, before *Spec, found *findings) {
	for _, path := range r.immutable {
		names := strings.Split(path, ".")
		if value, old := fieldOf(now, names), fieldOf(before, names); value.IsValid() && old.IsValid() {
			found.add(apivalidation.ValidateImmutableField(value.Interface(), old.Interface(), specPath(names...))...)
		}
	}
}

// freezeListing names the fields that changed.
func freezeListing[Spec any](now, before *Spec) *field.Error {
	return field.Forbidden(specPath(), strings.Join(differences(now, before), ","))
}

// freezeShowing shows the new specification.
func freezeShowing[Spec any](now, _ *Spec) *field.Error {
	return field.Invalid(specPath(), now, apivalidation.FieldImmutableErrorMsg)
}
