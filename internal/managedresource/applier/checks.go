package applier

import (
	"cmp"
	"slices"
	"strings"

	"k8s.io/utils/ptr"

	resourcesv1alpha1 "github.com/espalier-dev/espalier/api/resources/v1alpha1"
	"github.com/espalier-dev/espalier/internal/apply/merge"
)

// step is the work that a reconciliation does for a set.
type step int

const (
	// stepNone does nothing for the set: a controller of another class is responsible, or no work is left.
	stepNone step = iota
	// stepWait applies nothing now, because the annotation for a restore (operation wait-for-state) requests this. If the set was applied
	// before, the step starts the watches of the set and requests that the health controller judges the set.
	stepWait
	// stepIgnore reports that the set is ignored.
	stepIgnore
	// stepPlan publishes the plan of the set, and changes nothing in the target.
	stepPlan
	// stepApply brings the objects in the target to their desired state.
	stepApply
	// stepRemove deletes the set's objects, because the set is being deleted or now has another class.
	stepRemove
)

// Class is the class (spec.class) of the sets that this controller is responsible for.
type Class string

// Responsible reports whether the set has this class. AllClasses is responsible for every set.
func (c Class) Responsible(mr *resourcesv1alpha1.ManagedResource) bool {
	return string(c) == resourcesv1alpha1.AllClasses || classOf(mr) == string(c)
}

// classOf returns the class of the set.
func classOf(mr *resourcesv1alpha1.ManagedResource) string {
	return cmp.Or(ptr.Deref(mr.Spec.Class, ""), resourcesv1alpha1.DefaultClass)
}

// Finalizer returns the finalizer of the sets of this class.
func (c Class) Finalizer() string { return resourcesv1alpha1.FinalizerFor(string(c)) }

func (c Class) hasFinalizer(mr *resourcesv1alpha1.ManagedResource) bool {
	return slices.Contains(mr.Finalizers, c.Finalizer())
}

// active reports whether the controller of this class may process the set: the set has the finalizer of the class, or it has the class and
// no finalizer of another class.
func (c Class) active(mr *resourcesv1alpha1.ManagedResource) bool {
	return c.hasFinalizer(mr) || c.Responsible(mr) && !hasFinalizerOfAnyInstance(mr)
}

func hasFinalizerOfAnyInstance(mr *resourcesv1alpha1.ManagedResource) bool {
	return slices.ContainsFunc(mr.Finalizers, func(finalizer string) bool {
		return strings.HasPrefix(finalizer, resourcesv1alpha1.FinalizerName)
	})
}

func ignored(mr *resourcesv1alpha1.ManagedResource) bool {
	return merge.Truthy(mr.Annotations[resourcesv1alpha1.Ignore])
}

// planned reports whether only a plan of the set must be published, and nothing applied.
func planned(mr *resourcesv1alpha1.ManagedResource) bool {
	only, _ := merge.AsksForPlan(mr.Annotations)
	return only
}

// next returns the step for a set. As long as a set has the finalizer of another class and not the finalizer of this class, the controller
// of this class writes nothing to the target. In the source, it may still report that the set is ignored, or remove a plan that it
// published. The update that removes the finalizer of the other class causes a new reconciliation.
func (c Class) next(mr *resourcesv1alpha1.ManagedResource) step {
	deleting := mr.DeletionTimestamp != nil
	active, responsible := c.active(mr), c.Responsible(mr)
	switch {
	case mr.Annotations[resourcesv1alpha1.GardenerOperation] == resourcesv1alpha1.OperationWaitForState:
		return stepWait
	case ignored(mr) && !deleting && (active || responsible):
		return stepIgnore
	case deleting && !c.hasFinalizer(mr), !active:
		return stepNone
	case planned(mr) && !deleting:
		return stepPlan
	case deleting || !responsible:
		return stepRemove
	}
	return stepApply
}
