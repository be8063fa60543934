package view

import (
	"fmt"
	"regexp"

	corev1beta1 "github.com/espalier-dev/espalier/api/core/v1beta1"
	resourcesv1alpha1 "github.com/espalier-dev/espalier/api/resources/v1alpha1"
)

// Confirmation is a deletion that the controller has suspended until a user confirms it.
type Confirmation struct {
	Set Set `json:"set"`
	// Suspended is the message of the controller, which names the objects.
	Suspended string `json:"suspended"`
	// Checksum identifies the deletion: the sources, and the objects that leave the set.
	Checksum  string `json:"checksum"`
	Confirmed bool   `json:"confirmed"`
}

// checksumShown finds, in a message, the value that the annotation ConfirmDeletion must have.
var checksumShown = regexp.MustCompile(regexp.QuoteMeta(resourcesv1alpha1.ConfirmDeletion) + `: "([^"]+)"`)

// ConfirmationOf returns the deletion of objects that the controller has suspended until a user confirms it. The function finds it in the
// message of the condition ResourcesApplied of a set, and returns false if this message shows no suspended deletion.
func ConfirmationOf(mr *resourcesv1alpha1.ManagedResource) (Confirmation, bool) {
	applied := corev1beta1.GetCondition(mr.Status.Conditions, resourcesv1alpha1.ResourcesApplied)
	if applied == nil {
		return Confirmation{}, false
	}
	found := checksumShown.FindStringSubmatch(applied.Message)
	if found == nil {
		return Confirmation{}, false
	}
	return Confirmation{
		Set: SetOf(mr), Suspended: applied.Message, Checksum: found[1],
		Confirmed: mr.Annotations[resourcesv1alpha1.ConfirmDeletion] == found[1],
	}, true
}

// Text implements Answer.
func (c Confirmation) Text(p *Printer) {
	fmt.Fprintf(p, "ManagedResource %s\n", c.Set.Key())
	p.fact("suspended", cell{c.Suspended, yellow})
	if c.Confirmed {
		p.fact("confirmed", cell{"yes, for this content of the sources", green})
		return
	}
	p.fact("to confirm", text(fmt.Sprintf("kubectl espalier confirm %s %s -n %s", c.Set.Name, c.Checksum, c.Set.Namespace)))
}
