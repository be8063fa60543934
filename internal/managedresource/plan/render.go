package plan

import (
	"encoding/json"
	"fmt"
	"slices"
	"strings"

	resourcesv1alpha1 "github.com/espalier-dev/espalier/api/resources/v1alpha1"
	"github.com/espalier-dev/espalier/internal/apply/difference"
	"github.com/espalier-dev/espalier/internal/excerpt"
	"github.com/espalier-dev/espalier/internal/managedresource/status"
)

// Unbounded is the limit for complete renderings.
const Unbounded = 0

// Text renders the plan for users, similar to a diff. It lists first the objects with an action, also if the action is refused or unknown,
// then the objects that are kept, and then the unchanged objects with a note. Other unchanged objects are only counted. If the text would
// be longer than limit bytes, it ends with the number of objects that are left out.
func (p *Plan) Text(limit int) string {
	var text strings.Builder
	fmt.Fprintf(&text, "Plan for ManagedResource %s/%s", p.Namespace, p.Name)
	if p.Generation > 0 {
		fmt.Fprintf(&text, " (generation %d)", p.Generation)
	}
	fmt.Fprintf(&text, "\n%s\n", p.Summary())
	if p.ValuesHidden {
		fmt.Fprintf(&text, "Values are not shown. The annotation %s=true on the ManagedResource shows them.\n", resourcesv1alpha1.PlanValues)
	}
	for _, remark := range slices.Concat(bounded(p.Faults), bounded(p.Remarks)) {
		fmt.Fprintf(&text, "! %s\n", remark)
	}
	listed := slices.DeleteFunc(ranked(p.Objects), func(o Object) bool { return o.Action == Unchanged && o.Note == "" })
	for i := range listed {
		entry := listed[i].text()
		if left := len(listed) - i; limit != Unbounded && text.Len()+len(entry) > limit {
			fmt.Fprintf(&text, "\nand %d more objects that are not shown\n", left)
			break
		}
		text.WriteString(entry)
	}
	return text.String()
}

// text renders one object.
func (o *Object) text() string {
	var text strings.Builder
	fmt.Fprintf(&text, "\n%s %s\n", o.Action, o.ID)
	if o.Note != "" {
		fmt.Fprintf(&text, "  # %s\n", strings.ReplaceAll(o.Note, "\n", "\n  # "))
	}
	for _, field := range o.Fields {
		if field.Masked != "" {
			fmt.Fprintf(&text, "  ~ %s: %s\n", field.Path, field.Masked)
			continue
		}
		if field.Old != "" {
			fmt.Fprintf(&text, "  - %s: %s\n", field.Path, field.Old)
		}
		if field.New != "" {
			fmt.Fprintf(&text, "  + %s: %s\n", field.Path, field.New)
		}
	}
	if o.MoreFields > 0 {
		fmt.Fprintf(&text, "  … and %d more fields\n", o.MoreFields)
	}
	return text.String()
}

// document is the JSON form of a plan, for programs.
type document struct {
	// Version changes if programs that read the document must change.
	Version            string            `json:"version"`
	ManagedResource    set               `json:"managedResource"`
	SecretsChecksum    string            `json:"secretsDataChecksum,omitempty"`
	Summary            string            `json:"summary"`
	Counts             map[Action]int    `json:"counts"`
	Problem            string            `json:"problem,omitempty"`
	Faults             []string          `json:"faults,omitempty"`
	Remarks            []string          `json:"remarks,omitempty"`
	Objects            []json.RawMessage `json:"objects"`
	ObjectsNotIncluded int               `json:"objectsNotIncluded,omitempty"`
	ValuesHidden       bool              `json:"valuesHidden,omitempty"`
}

type set struct {
	Namespace  string `json:"namespace"`
	Name       string `json:"name"`
	Generation int64  `json:"generation,omitempty"`
}

// JSON renders the plan for programs, with as many objects as fit into limit bytes. Objects that would be changed are first.
func (p *Plan) JSON(limit int) (string, error) {
	d := document{
		Version: "v1", ManagedResource: set{p.Namespace, p.Name, p.Generation}, SecretsChecksum: p.Checksum,
		Summary: p.Summary(), Counts: p.Counts(), Problem: excerpt.Of(p.Problem,
			maxNote), Faults: bounded(p.Faults), Remarks: bounded(p.Remarks), Objects: []json.RawMessage{},
		ValuesHidden: p.ValuesHidden,
	}
	size := 4 * maxNote
	for _, remark := range slices.Concat(d.Faults, d.Remarks) {
		size += 2 * len(remark)
	}
	objects := ranked(p.Objects)
	for i := range objects {
		entry, err := difference.JSON(objects[i], "  ")
		if err != nil {
			return "", err
		}
		// The lines of an entry are indented by two levels.
		size += len(entry) + 4*strings.Count(entry, "\n") + 8
		if limit != Unbounded && size > limit {
			d.ObjectsNotIncluded = len(objects) - i
			break
		}
		d.Objects = append(d.Objects, json.RawMessage(entry))
	}
	return difference.JSON(d, "  ")
}

// ranked returns first the objects that would be changed, then the kept ones, then the unchanged ones, otherwise in their order.
func ranked(objects []Object) []Object {
	rank := func(o Object) int {
		switch o.Action {
		case Unchanged:
			return 2
		case Keep:
			return 1
		default:
			return 0
		}
	}
	sorted := slices.Clone(objects)
	slices.SortStableFunc(sorted, func(a, b Object) int { return rank(a) - rank(b) })
	return sorted
}

// bounded returns the first remarks, each with bounded length. If there are more remarks, the last text says how many more.
func bounded(remarks []string) []string {
	listed := slices.Clone(status.Bounded(remarks))
	for i, remark := range listed {
		listed[i] = excerpt.Of(remark, maxNote)
	}
	return listed
}
