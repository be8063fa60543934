package prune

import (
	"cmp"
	"fmt"
	"slices"
	"strings"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/util/sets"

	resourcesv1alpha1 "github.com/espalier-dev/espalier/api/resources/v1alpha1"
	"github.com/espalier-dev/espalier/internal/apply/inventory"
	"github.com/espalier-dev/espalier/internal/managedresource/plan"
)

// Withheld contains obsolete objects that are not deleted yet. An obsolete object is an object that the set no longer contains. It stays
// in the target if both conditions are true: a new object of the set may take its place (see Resemble), and it is not certain that the API
// server accepts the new object.
type Withheld struct {
	// objects are the objects that stay, each with a new object that resembles it.
	objects map[inventory.Key]plan.ID
	// wanted are the new objects that may be refused.
	wanted sets.Set[inventory.Key]
}

// Withhold returns the obsolete objects that stay: each resembles a new object of the set that, by its plan, may be refused.
func Withhold(obsolete []resourcesv1alpha1.ObjectReference, planned []plan.Object) Withheld {
	w := Withheld{objects: map[inventory.Key]plan.ID{}, wanted: sets.New[inventory.Key]()}
	for _, each := range planned {
		if !each.Withholds() {
			continue
		}
		wanted := keyOf(each.ID)
		w.wanted.Insert(wanted)
		for _, ref := range obsolete {
			if key := inventory.RefKey(ref); Resemble(key, wanted) {
				w.objects[key] = each.ID
			}
		}
	}
	return w
}

// Resemble reports whether two objects differ so little that a mistake in a manifest may have turned one into the other: at least two of
// kind, namespace and name are equal. A missing kind or name equals any other.
func Resemble(one, other inventory.Key) bool {
	equal := 0
	// Only the key of a Namespace has an empty namespace.
	namespace := func(key inventory.Key) string { return cmp.Or(key.Namespace, metav1.NamespaceDefault) }
	for _, pair := range [][2]string{{one.Kind, other.Kind}, {namespace(one), namespace(other)}, {one.Name, other.Name}} {
		if pair[0] == pair[1] || pair[0] == "" || pair[1] == "" {
			equal++
		}
	}
	return equal >= 2
}

// IsEmpty reports whether no object is withheld.
func (w Withheld) IsEmpty() bool { return len(w.objects) == 0 }

// Has reports whether an object is withheld.
func (w Withheld) Has(ref resourcesv1alpha1.ObjectReference) bool {
	_, found := w.objects[inventory.RefKey(ref)]
	return found
}

// Without returns the given references without the references of withheld objects.
func (w Withheld) Without(refs []resourcesv1alpha1.ObjectReference) []resourcesv1alpha1.ObjectReference {
	return slices.DeleteFunc(slices.Clone(refs), w.Has)
}

// Reason returns why an object is withheld, "" if it is not.
func (w Withheld) Reason(ref resourcesv1alpha1.ObjectReference) string {
	wanted, found := w.objects[inventory.RefKey(ref)]
	if !found {
		return ""
	}
	return fmt.Sprintf("the set contains %s instead, which the API server has not accepted yet", wanted)
}

// maxNamed is how many withheld objects a message about one new object names.
const maxNamed = 3

// Note returns a part of the message about a new object that was refused. This part names the objects that stay because of the new object.
// If an admission check refused the new object, the part also names the annotation that allows the deletion of these objects. Note returns
// "" if no object stays.
func (w Withheld) Note(wanted inventory.Key, refusal error) string {
	if !w.wanted.Has(wanted) {
		return ""
	}
	var names []string
	for key := range w.objects {
		if Resemble(key, wanted) {
			names = append(names, fmt.Sprintf("%s %s/%s", key.Kind, cmp.Or(key.Namespace, metav1.NamespaceDefault), key.Name))
		}
	}
	if len(names) == 0 {
		return ""
	}
	slices.Sort(names)
	if more := len(names) - maxNamed; more > 0 {
		names = append(names[:maxNamed], fmt.Sprintf("%d more", more))
	}
	return "; until it is applied, these objects, which the set no longer contains, are not deleted: " + strings.Join(names, ", ") +
		plan.WayOut(refusal)
}

func keyOf(id plan.ID) inventory.Key {
	kind := schema.FromAPIVersionAndKind(id.APIVersion, id.Kind)
	return inventory.KeyOf(kind.Group, kind.Kind, id.Namespace, id.Name)
}

func idOf(ref resourcesv1alpha1.ObjectReference) plan.ID {
	return plan.IDOf(ref.GroupVersionKind(), ref.Namespace, ref.Name)
}
