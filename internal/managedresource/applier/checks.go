package applier

import (
	"slices"
	"strings"

	resourcesv1alpha1 "github.com/espalier-dev/espalier/api/resources/v1alpha1"
	"github.com/espalier-dev/espalier/internal/apply/merge"
	"github.com/espalier-dev/espalier/internal/managedresource/plan"
)

// step is what a reconciliation does with a set.
type step int

const (
	// stepNone leaves the set alone: it is another instance's, or nothing is left to do.
	stepNone step = iota
	// stepWait does nothing for now: a restore that is under way asks for that.
	stepWait
	// stepIgnore reports that the set is ignored.
	stepIgnore
	// stepPlan publishes what would be done, and does nothing of it.
	stepPlan
	// stepApply brings the target to what the set says.
	stepApply
	// stepRemove deletes the set's objects, because the set is deleted or handed over to another class.
	stepRemove
)

// Class is the class of sets that an instance serves.
type Class string

// responsible tells whether the set asks for this instance.
func (c Class) responsible(mr *resourcesv1alpha1.ManagedResource) bool {
	if string(c) == resourcesv1alpha1.AllClasses {
		return true
	}
	return classOf(mr) == string(c)
}

// classOf returns the class that the set asks for.
func classOf(mr *resourcesv1alpha1.ManagedResource) string {
	if mr.Spec.Class != nil && *mr.Spec.Class != "" {
		return *mr.Spec.Class
	}
	return resourcesv1alpha1.DefaultClass
}

func (c Class) finalizer() string { return resourcesv1alpha1.FinalizerFor(string(c)) }

func (c Class) holds(mr *resourcesv1alpha1.ManagedResource) bool {
	return slices.Contains(mr.Finalizers, c.finalizer())
}

// active tells whether this instance may act on the set: it already does, or nobody else does and it is asked to.
func (c Class) active(mr *resourcesv1alpha1.ManagedResource) bool {
	return c.holds(mr) || c.responsible(mr) && !heldByAnyInstance(mr)
}

func heldByAnyInstance(mr *resourcesv1alpha1.ManagedResource) bool {
	return slices.ContainsFunc(mr.Finalizers, func(finalizer string) bool {
		return strings.HasPrefix(finalizer, resourcesv1alpha1.FinalizerName)
	})
}

func ignored(mr *resourcesv1alpha1.ManagedResource) bool {
	return merge.Truthy(mr.Annotations[resourcesv1alpha1.Ignore])
}

// planned tells whether the set is to be planned only.
func planned(mr *resourcesv1alpha1.ManagedResource) bool {
	only, _ := plan.Asked(mr)
	return only
}

// next decides what to do with a set, in the order that the specification gives (2.3). A set that waits for another
// instance to let go needs no step: the update that removes the foreign finalizer brings it back.
func (c Class) next(mr *resourcesv1alpha1.ManagedResource) step {
	deleting := mr.DeletionTimestamp != nil
	active, responsible := c.active(mr), c.responsible(mr)
	switch {
	case mr.Annotations[resourcesv1alpha1.GardenerOperation] == resourcesv1alpha1.OperationWaitForState:
		return stepWait
	case ignored(mr) && !deleting && (active || responsible):
		return stepIgnore
	case deleting && !c.holds(mr), !active:
		return stepNone
	case planned(mr) && !deleting:
		return stepPlan
	case deleting || !responsible:
		return stepRemove
	}
	return stepApply
}
