// Package plan says what the ManagedResource controller would do with a set, out of facts that somebody else gathered,
// and writes it down for people and programs.
//
// Nothing here does I/O. No value of a Secret gets into a plan: of those, only the lengths are told.
package plan

import (
	"fmt"
	"slices"
	"strings"

	"github.com/espalier-dev/espalier/internal/excerpt"
)

// Action is what would be done with one object.
type Action string

const (
	// Create means that the object does not exist and would be made.
	Create Action = "create"
	// Change means that the object is the set's, and fields of it would be changed.
	Change Action = "change"
	// Replace means that the API server calls the change invalid, and the object may be deleted and made anew.
	Replace Action = "replace"
	// Delete means that the object has left the set and would be deleted.
	Delete Action = "delete"
	// Adopt means that the object exists already without being the set's, and would become so.
	Adopt Action = "adopt"
	// Release means that the object would be left in the target and lose the marks of the set (mode "Ignore").
	Release Action = "release"
	// Refused means that what the set asks for would fail. The note says why.
	Refused Action = "refused"
	// Unknown means that it cannot be told what would be done. The note says why.
	Unknown Action = "unknown"
	// Keep means that the object has left the set and would stay in the target. The note says why.
	Keep Action = "keep"
	// Unchanged means that nothing would be done.
	Unchanged Action = "unchanged"
)

// actions lists all actions in the order in which plans count them, with the words for it.
func actions() []struct {
	action Action
	words  string
} {
	return []struct {
		action Action
		words  string
	}{
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

// ID names an object.
type ID struct {
	APIVersion string `json:"apiVersion"`
	Kind       string `json:"kind"`
	// Namespace is empty for objects that have none.
	Namespace string `json:"namespace,omitempty"`
	Name      string `json:"name"`
}

// String names the object for a reader: "apps/v1 Deployment shop/web".
func (id ID) String() string {
	name := id.Name
	if id.Namespace != "" {
		name = id.Namespace + "/" + name
	}
	return fmt.Sprintf("%s %s %s", id.APIVersion, id.Kind, name)
}

// Field is a place in an object that would be changed.
type Field struct {
	// Path leads to it, as in spec.template.spec.containers[name=app].image.
	Path string `json:"path"`
	// Old and New are the values as JSON, cut after 256 bytes; empty where there is none.
	Old string `json:"old,omitempty"`
	New string `json:"new,omitempty"`
	// Masked stands in place of both where values are not shown.
	Masked string `json:"masked,omitempty"`
}

// Object is what would be done with one object.
type Object struct {
	Action Action `json:"action"`
	ID     `json:",inline"`
	// Fields are what would be changed, at most 20; MoreFields is how many more there are at least.
	Fields     []Field `json:"fields,omitempty"`
	MoreFields int     `json:"moreFields,omitempty"`
	// Unconfirmed tells that no dry run could show that the API server would take it. The note says why.
	Unconfirmed bool `json:"unconfirmed,omitempty"`
	// Note is what else is to be known, in particular why something would not be done.
	Note string `json:"note,omitempty"`

	// attempted is what a refused object would be if the API server were mistaken.
	attempted Action
	// plainNote is the note without what an answer of the API server may quote; empty if the note quotes nothing.
	plainNote string
}

// Plan is what would be done with a set.
type Plan struct {
	// Namespace, Name and Generation are those of the ManagedResource.
	Namespace, Name string
	Generation      int64
	// Checksum is over the data of the Secrets that the plan was made from, as in the status of an applied set.
	Checksum string
	// Problem says why nothing at all would be done; empty otherwise.
	Problem string
	// Faults name the documents of the set that cannot be read.
	Faults []string
	// Remarks say what else concerns the set as a whole.
	Remarks []string
	// Objects are in the order in which they would be worked on.
	Objects []Object
	// ValuesHidden reports that the plan shows no values of the objects.
	ValuesHidden bool
}

// WithoutValues returns the plan for readers who may not be allowed to read the objects: of each field it shows the path and
// whether it is added, removed or changed, of an answer of the API server only the reason and the fields at fault.
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
			o.Fields[k] = field.withoutValues()
		}
	}
	return &hidden
}

func (f Field) withoutValues() Field {
	switch {
	case f.Masked != "":
		return f
	case f.Old == "":
		return Field{Path: f.Path, Masked: "added"}
	case f.New == "":
		return Field{Path: f.Path, Masked: "removed"}
	}
	return Field{Path: f.Path, Masked: "changed"}
}

// Counts returns how many objects there are of each action.
func (p *Plan) Counts() map[Action]int {
	counts := map[Action]int{}
	for i := range p.Objects {
		counts[p.Objects[i].Action]++
	}
	return counts
}

// Changes tells whether anything would be done to the target.
func (p *Plan) Changes() bool {
	counts := p.Counts()
	return counts[Create]+counts[Change]+counts[Replace]+counts[Delete]+counts[Adopt]+counts[Release] > 0
}

// Faulty tells whether carrying the plan out would fail somewhere, or parts of it cannot be told.
func (p *Plan) Faulty() bool {
	counts := p.Counts()
	return p.Problem != "" || len(p.Faults) > 0 || counts[Refused]+counts[Unknown] > 0
}

// Summary is the plan in one line of counts.
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
