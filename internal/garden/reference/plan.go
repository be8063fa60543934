package reference

import (
	"cmp"
	"fmt"
	"maps"
	"slices"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/sets"

	operatorv1alpha1 "github.com/espalier-dev/espalier/api/operator/v1alpha1"
)

// facts are the inputs of a decision about a Garden.
type facts struct {
	garden *operatorv1alpha1.Garden
	// referenced are the names of the objects that Gardens refer to. Gardens in deletion do not count.
	referenced sets.Set[Name]
	// objects are the Secrets and ConfigMaps in the namespace.
	objects []metav1.PartialObjectMetadata
}

// actions are the changes that follow from facts.
type actions struct {
	// release and protect are the objects whose finalizer is removed or added.
	release, protect []metav1.PartialObjectMetadata
	// protectGarden is true if the Garden must have the finalizer, and false if the finalizer must be removed.
	protectGarden bool
	// problems say which references cannot be protected.
	problems []error
}

func plan(f facts) actions {
	var todo actions
	for _, object := range f.objects {
		if isProtected(&object) && !isIgnored(&object) && !f.referenced.Has(nameOf(&object)) {
			todo.release = append(todo.release, object)
		}
	}
	if f.garden.DeletionTimestamp != nil {
		return todo
	}

	for _, name := range slices.SortedFunc(maps.Keys(Of(f.garden)), secretsFirst) {
		i := slices.IndexFunc(f.objects, func(o metav1.PartialObjectMetadata) bool { return nameOf(&o) == name })
		if i < 0 {
			todo.problems = append(todo.problems, fmt.Errorf("referenced %s %q does not exist", name.Kind, name.Name))
			continue
		}
		object := f.objects[i]
		switch {
		case isIgnored(&object):
			continue
		case isProtected(&object):
		case object.DeletionTimestamp != nil: // the API server accepts no finalizers any more
			todo.problems = append(todo.problems, fmt.Errorf("referenced %s %q is being deleted", name.Kind, name.Name))
			continue
		default:
			todo.protect = append(todo.protect, object)
		}
		todo.protectGarden = true
	}
	return todo
}

func nameOf(o *metav1.PartialObjectMetadata) Name { return Name{Kind: o.Kind, Name: o.Name} }

func secretsFirst(a, b Name) int {
	return cmp.Or(cmp.Compare(b.Kind, a.Kind), cmp.Compare(a.Name, b.Name))
}

func isProtected(object metav1.Object) bool {
	return slices.Contains(object.GetFinalizers(), operatorv1alpha1.FinalizerReferenceProtection)
}

// isIgnored reports whether an object is a Secret with a role: components of Gardener manage these.
func isIgnored(object *metav1.PartialObjectMetadata) bool {
	return object.Kind == secret && object.Labels[operatorv1alpha1.LabelRole] != ""
}
