package extensionvalidation

import (
	"strings"

	"k8s.io/apimachinery/pkg/api/equality"
	apivalidation "k8s.io/apimachinery/pkg/api/validation"
	"k8s.io/apimachinery/pkg/util/validation/field"
)

// rules are what objects of a kind must keep to.
type rules[Spec, Status any] struct {
	namespaced bool
	// check finds what is wrong with an object by itself.
	check func(*object[Spec, Status], *findings)
	// keep finds what changed although it must not.
	keep func(now, before *Spec, found *findings)
	// freeze says that the specification must not change because its object is being deleted.
	freeze func(now, before *Spec) *field.Error
}

// specPath and its like are functions, because packages have no constants of this type.
func specPath(names ...string) *field.Path { return below(field.NewPath("spec"), names...) }

func statusPath(names ...string) *field.Path { return below(field.NewPath("status"), names...) }

func below(path *field.Path, names ...string) *field.Path {
	for _, name := range names {
		path = path.Child(name)
	}
	return path
}

// create lists what is wrong with a new object.
func (r *rules[Spec, Status]) create(now *object[Spec, Status]) field.ErrorList {
	var found findings
	r.whole(now, &found)
	return found.list
}

// whole finds what is wrong with an object by itself.
func (r *rules[Spec, Status]) whole(now *object[Spec, Status], found *findings) {
	found.metadata(&now.Metadata, r.namespaced)
	r.check(now, found)
}

// update lists what is wrong with a change. An object that is being deleted and whose specification stays may be invalid,
// or else an object from before a rule could never get rid of its finalizers.
func (r *rules[Spec, Status]) update(now, before *object[Spec, Status]) field.ErrorList {
	var found findings
	found.metadataUpdate(&now.Metadata, &before.Metadata)
	switch deleting := now.Metadata.DeletionTimestamp != nil; {
	case !deleting:
		r.keep(&now.Spec, &before.Spec, &found)
	case equality.Semantic.DeepEqual(&now.Spec, &before.Spec):
		return found.list
	default:
		found.add(r.freeze(&now.Spec, &before.Spec))
	}
	r.whole(now, &found)
	return found.list
}

// freezeListing names the fields that changed.
func freezeListing[Spec any](now, before *Spec) *field.Error {
	return field.Forbidden(specPath(), strings.Join(differences(now, before), ","))
}

// freezeShowing shows the new specification.
func freezeShowing[Spec any](now, _ *Spec) *field.Error {
	return field.Invalid(specPath(), now, apivalidation.FieldImmutableErrorMsg)
}
