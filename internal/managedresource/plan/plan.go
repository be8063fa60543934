// Package plan computes the plan of a set (a ManagedResource) from facts, and renders it for users and programs. A plan lists the changes
// that the ManagedResource controller would make. The caller collects the facts.
//
// The package does no I/O. A plan never contains a value of a Secret, only its length.
package plan

import (
	"fmt"
	"slices"
	"strings"

	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/espalier-dev/espalier/internal/apply/difference"
	"github.com/espalier-dev/espalier/internal/excerpt"
)

// Action is the planned change of an object.
type Action string

const (
	// Create means that the object does not exist and would be created.
	Create Action = "create"
	// Change means that the object belongs to the set, and some of its fields would be changed.
	Change Action = "change"
	// Replace means that the API server refuses the change as invalid, and that the controller would therefore delete the object and create
	// it again.
	Replace Action = "replace"
	// Delete means that the object has left the set and would be deleted.
	Delete Action = "delete"
	// Adopt means that the object exists without belonging to the set, and would be added to it.
	Adopt Action = "adopt"
	// Release means that the object would be kept in the target, without the annotations of the set (mode "Ignore").
	Release Action = "release"
	// Refused means that the action would fail. The note says why.
	Refused Action = "refused"
	// Unknown means that the action cannot be determined. The note says why.
	Unknown Action = "unknown"
	// Keep means that the object has left the set and would be kept in the target. The note says why.
	Keep Action = "keep"
	// Unchanged means that nothing would be done.
	Unchanged Action = "unchanged"
)

// counted is an action with its words in a summary.
type counted struct {
	action Action
	words  string
}

// actions lists all actions in the order in which plans count them.
func actions() []counted {
	return []counted{
		{Create, "to create"},
		{Change, "to change"},
		{Replace, "to replace"},
		{Delete, "to delete"},
		{Adopt, "to adopt"},
		{Release, "to release"},
		{Refused, "refused"},
		{Unknown, "unknown"},
		{Keep, "kept"},
		{Unchanged, "unchanged"},
	}
}

// ID identifies an object in a plan.
type ID struct {
	APIVersion string `json:"apiVersion"`
	Kind       string `json:"kind"`
	// Namespace is empty for cluster-scoped objects.
	Namespace string `json:"namespace,omitempty"`
	Name      string `json:"name"`
}

// IDOf returns the ID of an object.
func IDOf(kind schema.GroupVersionKind, namespace, name string) ID {
	version, short := kind.ToAPIVersionAndKind()
	return ID{APIVersion: version, Kind: short, Namespace: namespace, Name: name}
}

// String formats the object for users: "apps/v1 Deployment shop/web".
func (id ID) String() string {
	name := id.Name
	if id.Namespace != "" {
		name = id.Namespace + "/" + name
	}
	return fmt.Sprintf("%s %s %s", id.APIVersion, id.Kind, name)
}

// Field is a field to change.
type Field = difference.Field

// maxNote is the maximum length of the note about one object, in bytes: API servers and webhooks may return long texts.
const maxNote = 1024

// Object is the plan for one object.
type Object struct {
	Action Action `json:"action"`
	ID     `json:",inline"`
	// Fields are the fields to change, at most 20; MoreFields is how many more there are at least.
	Fields     []Field `json:"fields,omitempty"`
	MoreFields int     `json:"moreFields,omitempty"`
	// Unconfirmed is true if no dry run has confirmed that the API server accepts the write. The note says why.
	Unconfirmed bool `json:"unconfirmed,omitempty"`
	// Note contains further information, in particular why an action would fail.
	Note string `json:"note,omitempty"`

	// attempted is the action that was refused, if Reconsider may revert the refusal.
	attempted Action
	// withholds is true if this object is new and it is not certain that the API server accepts it. In this case, obsolete objects that
	// resemble this object, and that the set no longer contains, are not deleted.
	withholds bool
	// replaces is true if this object is new and its manifest does not have the annotation that makes Wanted.Untested true. Only then,
	// withholds may become true. needs is the Namespace or CustomResourceDefinition of the set that must exist before this object; it
	// contains only a kind and a name, and is nil if there is none.
	replaces bool
	needs    *ID
	// plainNote is Note without values that a response of the API server quotes; empty if Note quotes none.
	plainNote string
}

// Withholds reports whether this object is new and may be refused. In this case, obsolete objects that resemble this object, and that the
// set no longer contains, must stay until this object is applied.
func (o *Object) Withholds() bool { return o.withholds }

// Plan is the plan of a set.
type Plan struct {
	// Namespace, Name and Generation identify the ManagedResource and the version of its specification.
	Namespace, Name string
	Generation      int64
	// Checksum is the checksum of the Secret data that the plan was computed from, as in the status of an applied set.
	Checksum string
	// Problem says why the controller would do nothing for the set; empty otherwise.
	Problem string
	// Faults name the documents of the set that are invalid.
	Faults []string
	// Remarks contain further information about the set as a whole.
	Remarks []string
	// Objects are in the order in which they would be processed.
	Objects []Object
	// ValuesHidden reports that the plan shows no values of the objects.
	ValuesHidden bool
}

// WithoutValues returns the plan for readers that may not be allowed to read the objects. Of each field it shows the path and whether it is
// added, removed or changed. Of an error of the API server it shows the reason and the invalid fields.
func (p *Plan) WithoutValues() *Plan {
	hidden := *p
	hidden.ValuesHidden = true
	hidden.Objects = slices.Clone(p.Objects)
	for i := range hidden.Objects {
		o := &hidden.Objects[i]
		if o.plainNote != "" {
			o.Note = o.plainNote
		}
		o.Fields = slices.Clone(o.Fields)
		for k, field := range o.Fields {
			o.Fields[k] = field.WithoutValues()
		}
	}
	return &hidden
}

// Counts returns the number of objects for each action.
func (p *Plan) Counts() map[Action]int {
	counts := map[Action]int{}
	for i := range p.Objects {
		counts[p.Objects[i].Action]++
	}
	return counts
}

// Changes reports whether anything in the target would be changed.
func (p *Plan) Changes() bool {
	counts := p.Counts()
	return counts[Create]+counts[Change]+counts[Replace]+counts[Delete]+counts[Adopt]+counts[Release] > 0
}

// Faulty reports whether the action for some object would fail or is unknown, or the set has a problem or faults.
func (p *Plan) Faulty() bool {
	counts := p.Counts()
	return p.Problem != "" || len(p.Faults) > 0 || counts[Refused]+counts[Unknown] > 0
}

// Summary returns the plan as one line of counts.
func (p *Plan) Summary() string {
	if p.Problem != "" {
		return excerpt.Of("nothing would be done: "+p.Problem, maxNote)
	}
	counts, unconfirmed := p.Counts(), 0
	for i := range p.Objects {
		if p.Objects[i].Unconfirmed {
			unconfirmed++
		}
	}
	var parts []string
	for _, each := range actions() {
		if count := counts[each.action]; count > 0 {
			parts = append(parts, fmt.Sprintf("%d %s", count, each.words))
		}
	}
	text := strings.Join(parts, ", ")
	switch {
	case text == "":
		text = "nothing would change: the set has no objects"
	case !p.Changes() && !p.Faulty():
		text = "nothing would change: " + text
	}
	if unconfirmed > 0 {
		text += fmt.Sprintf("; %d of these not confirmed by the API server", unconfirmed)
	}
	if len(p.Faults) > 0 {
		text += fmt.Sprintf("; documents that cannot be read: %d", len(p.Faults))
	}
	return text
}
