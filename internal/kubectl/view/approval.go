package view

import (
	"fmt"

	resourcesv1alpha1 "github.com/espalier-dev/espalier/api/resources/v1alpha1"
)

// Approval is a plan that is applied when a user approves its content.
type Approval struct {
	Set Set `json:"set"`
	// Plan is the published plan, as the controller wrote it.
	Plan *Plan `json:"plan"`
	// Checksum identifies the content of the Secrets that the plan shows.
	Checksum string `json:"checksum"`
	Approved bool   `json:"approved"`
}

// ApprovalOf returns the plan of a set that can be approved. It fails if the plan has no content, or is not of the present specification.
func ApprovalOf(mr *resourcesv1alpha1.ManagedResource, plan *Plan) (Approval, error) {
	planned := plan.parsed
	switch {
	case planned.Checksum == "":
		return Approval{}, fmt.Errorf("the plan of ManagedResource %s/%s has no content to approve: %s", mr.Namespace, mr.Name, planned.Problem)
	case planned.ManagedResource.Generation != mr.Generation:
		return Approval{}, fmt.Errorf("the plan of ManagedResource %s/%s is of generation %d, and the specification has generation %d: "+
			"wait until the controller has published a new plan", mr.Namespace, mr.Name, planned.ManagedResource.Generation, mr.Generation)
	}
	return Approval{
		Set: SetOf(mr), Plan: plan, Checksum: planned.Checksum, Approved: mr.Annotations[resourcesv1alpha1.Approved] == planned.Checksum,
	}, nil
}

// Text implements Answer.
func (a Approval) Text(p *Printer) {
	if a.Approved {
		fmt.Fprintf(p, "ManagedResource %s\n", a.Set.Key())
		p.fact("approved", cell{"the content with checksum " + a.Checksum, green})
		return
	}
	a.Plan.Text(p)
	fmt.Fprintln(p)
	p.fact("to approve", text(fmt.Sprintf("kubectl espalier approve %s %s -n %s", a.Set.Name, a.Checksum, a.Set.Namespace)))
}
