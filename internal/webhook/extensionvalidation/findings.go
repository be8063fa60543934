package extensionvalidation

import (
	"slices"

	apivalidation "k8s.io/apimachinery/pkg/api/validation"
	"k8s.io/apimachinery/pkg/util/validation/field"
)

// maxFindings is how many are listed at most: large objects must not lead to much larger answers, which nobody reads.
const maxFindings = 1000

// findings collects what is wrong with an object.
type findings struct{ list field.ErrorList }

func (f *findings) add(found ...*field.Error) {
	f.list = append(f.list, found[:min(len(found), max(0, maxFindings-len(f.list)))]...)
}

// require finds text that is empty.
func (f *findings) require(path *field.Path, value string) { f.requireIf(value == "", path) }

// requireIf finds that something is missing.
func (f *findings) requireIf(missing bool, path *field.Path) {
	if missing {
		f.add(field.Required(path, "field is required"))
	}
}

// oneOf finds a value that is none of those known.
func (f *findings) oneOf(path *field.Path, value string, known ...string) {
	if !slices.Contains(known, value) {
		f.add(field.NotSupported(path, value, known))
	}
}

// keep finds that a value changed that must not. Nil and empty lists and maps are the same, nil and empty pointers are not.
func (f *findings) keep(path *field.Path, now, before any) {
	f.add(apivalidation.ValidateImmutableField(now, before, path)...)
}
