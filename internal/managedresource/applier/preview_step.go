package applier

import (
	"fmt"

	resourcesv1alpha1 "github.com/espalier-dev/espalier/api/resources/v1alpha1"
)

// foreseen is what the step that is next with a set means for what can be said of it beforehand.
type foreseen struct {
	// gives tells that the set would be given up.
	gives bool
	// problem says why nothing would be done, remark what else is to be known; empty otherwise.
	problem, remark string
}

// foresee tells what a reconciliation would come to if the set were as given and nobody asked for a plan only.
func (c Class) foresee(mr *resourcesv1alpha1.ManagedResource) foreseen {
	switch c.next(mr) {
	case stepWait:
		return foreseen{problem: fmt.Sprintf("the set waits: it has the annotation %s=%s", resourcesv1alpha1.GardenerOperation, resourcesv1alpha1.OperationWaitForState)}
	case stepIgnore:
		return foreseen{problem: fmt.Sprintf("the set is ignored: it has the annotation %s", resourcesv1alpha1.Ignore)}
	case stepNone:
		return foreseen{problem: c.stranger(mr)}
	case stepPlan:
		return foreseen{
			gives:  !c.responsible(mr),
			remark: fmt.Sprintf("the set has the annotation %s: nothing of this is done while it is there", resourcesv1alpha1.Plan),
		}
	case stepRemove:
		return foreseen{gives: true}
	case stepApply:
	}
	return foreseen{}
}

// stranger says why a set is not this instance's.
func (c Class) stranger(mr *resourcesv1alpha1.ManagedResource) string {
	switch {
	case mr.DeletionTimestamp != nil:
		return "the set is being deleted, and another controller holds it or nobody does"
	case c.responsible(mr):
		return "another controller holds the set and lets go of it first, which deletes its objects unless spec.keepObjects is set; then they are made anew"
	}
	return fmt.Sprintf("the set is of class %q, and this is about the controller of class %q", classOf(mr), string(c))
}

// farewell says why a set is given up.
func farewell(mr *resourcesv1alpha1.ManagedResource) string {
	if mr.DeletionTimestamp != nil {
		return "the set is being deleted"
	}
	return "the set would be handed over to another class"
}
