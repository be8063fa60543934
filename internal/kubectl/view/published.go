package view

import (
	"encoding/json"
	"fmt"
	"strings"

	corev1 "k8s.io/api/core/v1"
)

// Plan is the published plan of a set. Its JSON is the document of the controller, unchanged.
type Plan struct {
	document json.RawMessage
	text     string
	parsed   planDocument
}

// planDocument contains the fields of a plan that "why" and "approve" read; see docs/managedresource.md.
type planDocument struct {
	ManagedResource struct {
		Generation int64 `json:"generation"`
	} `json:"managedResource"`
	Checksum string          `json:"secretsDataChecksum"`
	Objects  []plannedObject `json:"objects"`
	Problem  string          `json:"problem"`
}

type plannedObject struct {
	ID     `json:",inline"`
	Action string `json:"action"`
	Note   string `json:"note"`
	Fields []struct {
		Path string `json:"path"`
	} `json:"fields"`
}

// PlanOf reads a plan from its ConfigMap.
func PlanOf(published *corev1.ConfigMap) (*Plan, error) {
	p := &Plan{document: json.RawMessage(published.Data["plan.json"]), text: published.Data["plan.txt"]}
	if err := json.Unmarshal(p.document, &p.parsed); err != nil {
		return nil, fmt.Errorf("read key plan.json of ConfigMap %s/%s: %w; is it a plan?", published.Namespace, published.Name, err)
	}
	return p, nil
}

// MarshalJSON implements json.Marshaler.
func (p *Plan) MarshalJSON() ([]byte, error) { return p.document, nil }

// about returns the part of the plan about an object, in one line.
func (p *Plan) about(id ID) string {
	for _, o := range p.parsed.Objects {
		if o.Kind != id.Kind || o.Namespace != id.Namespace || o.Name != id.Name || o.APIVersion != id.APIVersion {
			continue
		}
		paths := make([]string, 0, len(o.Fields))
		for _, field := range o.Fields {
			paths = append(paths, field.Path)
		}
		said := strings.TrimSuffix("plan: "+o.Action+" "+strings.Join(paths, ", "), " ")
		if o.Note != "" {
			said += " (" + o.Note + ")"
		}
		return said
	}
	if p.parsed.Problem != "" {
		return "plan: nothing would be done: " + p.parsed.Problem
	}
	return "plan: not listed"
}

// Text implements Answer.
func (p *Plan) Text(printer *Printer) {
	colours := map[string]colour{"+": green, "-": red, "~": yellow, "!": red, "create": green, "delete": red, "refused": red, "change": yellow}
	for line := range strings.Lines(p.text) {
		line = strings.TrimSuffix(line, "\n")
		first, _, _ := strings.Cut(strings.TrimSpace(line), " ")
		fmt.Fprintln(printer, printer.paint(cell{line, colours[first]}, 0))
	}
}
