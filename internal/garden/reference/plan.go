package reference

import (
	"cmp"
	"fmt"
	"maps"
	"slices"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/sets"
	"sigs.k8s.io/controller-runtime/pkg/client"

	operatorv1alpha1 "github.com/espalier-dev/espalier/api/operator/v1alpha1"
)

// facts are the inputs of a decision about a Garden or an Extension, the owner.
type facts struct {
	owner client.Object
	// names are the names of the objects that the owner refers to.
	names sets.Set[Name]
	// referenced are the names of the objects that Gardens and Extensions refer to. Gardens and Extensions that are being deleted do not
	// count.
	referenced sets.Set[Name]
	// objects are the Secrets and ConfigMaps in the namespace.
	objects []metav1.PartialObjectMetadata
}

// actions are the changes that follow from facts.
type actions struct {
	// release and protect are the objects whose finalizer is removed or added.
	release, protect []metav1.PartialObjectMetadata
	// protectOwner is true if the owner must have the finalizer, and false if the finalizer must be removed.
	protectOwner bool
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
	if f.owner.GetDeletionTimestamp() != nil {
		return todo
	}

	for _, name := range slices.SortedFunc(maps.Keys(f.names), secretsFirst) {
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
		todo.protectOwner = true
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

// rolesOfUsers are the roles of Secrets that users create for Extensions.
var rolesOfUsers = []string{
	"", operatorv1alpha1.RolePullSecret, operatorv1alpha1.RoleCABundle, operatorv1alpha1.RoleResourceReference,
}

// isIgnored reports whether an object is a Secret with another role: components of Gardener manage these.
func isIgnored(object *metav1.PartialObjectMetadata) bool {
	return object.Kind == secret && !slices.Contains(rolesOfUsers, object.Labels[operatorv1alpha1.LabelRole])
}
