package connectivity

import (
	"fmt"
	"io"
	"slices"
	"strconv"
	"strings"
	"text/tabwriter"
)

// Table writes the report as a table.
func (r *Report) Table(out io.Writer) error {
	table := tabwriter.NewWriter(out, 0, 0, 3, ' ', 0)
	fmt.Fprintln(table, "FROM\tTO\tPORTS")
	for _, each := range r.Edges {
		fmt.Fprintf(table, "%s\t%s\t%s\n", each.From, each.To, each.Ports)
	}
	if err := table.Flush(); err != nil {
		return fmt.Errorf("print table: %w", err)
	}
	for _, line := range r.remarks() {
		if _, err := fmt.Fprintln(out, line); err != nil {
			return fmt.Errorf("print table: %w", err)
		}
	}
	return nil
}

func (r *Report) remarks() []string {
	var lines []string
	if len(r.OpenIngress) > 0 {
		lines = append(lines, "Receive from everybody who may send, since no policy selects them: "+strings.Join(r.OpenIngress, ", "))
	}
	if len(r.OpenEgress) > 0 {
		lines = append(lines, "Send to everybody who may receive, since no policy selects them: "+strings.Join(r.OpenEgress, ", "))
	}
	if r.OnHostNetwork > 0 {
		lines = append(lines, fmt.Sprintf("Not looked at, since policies do not concern the network of nodes: %d Pods", r.OnHostNetwork))
	}
	return lines
}

// Dot writes the report as a graph for Graphviz, with one box for each namespace.
func (r *Report) Dot(out io.Writer) error {
	var text strings.Builder
	text.WriteString("digraph connectivity {\n  rankdir=LR;\n  node [shape=box];\n")
	for i, namespace := range r.boxes() {
		fmt.Fprintf(&text, "  subgraph cluster_%d {\n    label=%s;\n", i, strconv.Quote(namespace.name))
		for _, each := range namespace.workloads {
			fmt.Fprintf(&text, "    %s;\n", strconv.Quote(each))
		}
		text.WriteString("  }\n")
	}
	for _, each := range r.Edges {
		fmt.Fprintf(&text, "  %s -> %s [label=%s];\n", strconv.Quote(each.From), strconv.Quote(each.To), strconv.Quote(each.Ports))
	}
	for _, line := range r.remarks() {
		fmt.Fprintf(&text, "  // %s\n", line)
	}
	text.WriteString("}\n")
	if _, err := io.WriteString(out, text.String()); err != nil {
		return fmt.Errorf("print graph: %w", err)
	}
	return nil
}

type box struct {
	name      string
	workloads []string
}

// boxes returns the namespaces with the workloads of the report, in the order of their appearance.
func (r *Report) boxes() []box {
	var boxes []box
	index, seen := map[string]int{}, map[string]bool{}
	add := func(name string) {
		namespace, inside := r.namespaces[name]
		if !inside || seen[name] {
			return
		}
		seen[name] = true
		if _, known := index[namespace]; !known {
			index[namespace] = len(boxes)
			boxes = append(boxes, box{name: namespace})
		}
		at := &boxes[index[namespace]]
		at.workloads = append(at.workloads, name)
	}
	for _, each := range r.Edges {
		add(each.From)
		add(each.To)
	}
	for _, name := range slices.Concat(r.OpenIngress, r.OpenEgress) {
		add(name)
	}
	return boxes
}
