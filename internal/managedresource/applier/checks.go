package applier

import (
	"cmp"
	"slices"
	"strings"

	"k8s.io/utils/ptr"

	resourcesv1alpha1 "github.com/espalier-dev/espalier/api/resources/v1alpha1"
	"github.com/espalier-dev/espalier/internal/apply/merge"
	"github.com/espalier-dev/espalier/internal/managedresource/plan"
)

// step is the work of a reconciliation on a set.
type step int

const (
	// stepNone does nothing: another instance is responsible for the set, or no work is left.
	stepNone step = iota
	// stepWait does nothing for now, because a running restore requests that.
	stepWait
	// stepIgnore reports that the set is ignored.
	stepIgnore
	// stepPlan publishes the plan of the set, and changes nothing in the target.
	stepPlan
	// stepApply brings the objects in the target to their desired state.
	stepApply
	// stepRemove deletes the set's objects, because the set is being deleted or now belongs to another class.
	stepRemove
)

// Class is the class of sets that an instance serves.
type Class string

// Responsible reports whether the set is of the class of this instance.
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

// active reports whether this instance may act on the set: the set has its finalizer, or it is of its class and has no finalizer of
// another instance.
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

// planned reports whether the set must be planned and not applied.
func planned(mr *resourcesv1alpha1.ManagedResource) bool {
	only, _ := plan.Asked(mr)
	return only
}

// next returns the step for a set; the first case that matches decides. A set that has the finalizer of another instance needs no step: the
// update that removes this finalizer causes a new reconciliation.
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
