package applier

import (
	"fmt"

	resourcesv1alpha1 "github.com/espalier-dev/espalier/api/resources/v1alpha1"
)

// setPreview is the effect of the next step on a set as a whole.
type setPreview struct {
	// removesSet is true if the objects of the set would be deleted or kept, and the finalizer removed.
	removesSet bool
	// problem is the reason why nothing would be done, remark further information; empty otherwise.
	problem, remark string
}

// previewSet returns the effect of a reconciliation on the given set, as if no annotation requested a plan.
func (c Class) previewSet(mr *resourcesv1alpha1.ManagedResource) setPreview {
	switch c.next(mr) {
	case stepWait:
		return setPreview{problem: fmt.Sprintf("the set waits: it has the annotation %s=%s",
			resourcesv1alpha1.GardenerOperation, resourcesv1alpha1.OperationWaitForState)}
	case stepIgnore:
		return setPreview{problem: fmt.Sprintf("the set is ignored: it has the annotation %s", resourcesv1alpha1.Ignore)}
	case stepNone:
		return setPreview{problem: c.notServedReason(mr)}
	case stepPlan:
		return setPreview{
			removesSet: !c.responsible(mr),
			remark:     fmt.Sprintf("the set has the annotation %s: nothing of this is done while it is there", resourcesv1alpha1.Plan),
		}
	case stepRemove:
		return setPreview{removesSet: true}
	case stepApply:
	}
	return setPreview{}
}

// notServedReason returns why this instance does not process a set.
func (c Class) notServedReason(mr *resourcesv1alpha1.ManagedResource) string {
	switch {
	case mr.DeletionTimestamp != nil:
		return "the set is being deleted, and it has the finalizer of another controller or none"
	case c.responsible(mr):
		return "another controller holds the set and lets go of it first, which deletes its objects unless spec.keepObjects is set; then they are made anew"
	}
	return fmt.Sprintf("the set is of class %q, and this is about the controller of class %q", classOf(mr), string(c))
}

// removalReason returns why the objects of a set are deleted.
func removalReason(mr *resourcesv1alpha1.ManagedResource) string {
	if mr.DeletionTimestamp != nil {
		return "the set is being deleted"
	}
	return "the set would be handed over to another class"
}
