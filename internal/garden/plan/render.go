package plan

import (
	"fmt"
	"strings"

	operatorv1alpha1 "github.com/espalier-dev/espalier/api/operator/v1alpha1"
	"github.com/espalier-dev/espalier/internal/apply/difference"
	"github.com/espalier-dev/espalier/internal/garden/takeover"
)

// Text renders the plan for users.
func (p *Plan) Text() string {
	t := &text{}
	t.line("Plan for Garden %s%s", p.Garden, map[bool]string{true: " (new)"}[p.New])
	switch {
	case p.IsRefused():
		t.line("refused: see below")
	case !p.Changes():
		t.line("nothing would change")
	default:
		t.line("objects: %s; workloads that restart: %d%s", p.counts(), len(p.Restarts), lastTime(p.Seconds))
	}
	t.list("Refused", p.Refused)
	t.findings(p.Missing)
	t.list("Warnings", p.Warnings)
	if len(p.Fields) > 0 {
		t.title("Fields of the Garden")
		t.fields(p.Fields, p.MoreFields)
	}
	t.takeOver(p)
	t.list("Becomes unreadable or unreachable", p.Lost)
	t.restarts(p.Restarts)
	t.objects(p.Objects)
	t.tasks(p.Tasks)
	t.list("Not foreseen", p.Remarks)
	return t.String()
}

// JSON renders the plan for programs.
func (p *Plan) JSON() (string, error) { return difference.JSON(p, "  ") }

func lastTime(of float64) string {
	if of == 0 {
		return ""
	}
	return "; the last reconciliation took " + seconds(of)
}

// text collects the lines of a plan.
type text struct{ strings.Builder }

func (t *text) line(format string, args ...any) { fmt.Fprintf(t, format+"\n", args...) }

func (t *text) title(name string) { t.line("\n%s", name) }

func (t *text) list(title string, lines []string) {
	if len(lines) == 0 {
		return
	}
	t.title(title)
	for _, each := range lines {
		t.line("! %s", strings.ReplaceAll(each, "\n", "\n  "))
	}
}

func (t *text) findings(all []Finding) {
	if len(all) == 0 {
		return
	}
	t.title("Preflight")
	for _, each := range all {
		mark := "-"
		if each.Blocks {
			mark = "!"
		}
		t.line("%s %s: %s", mark, each.Check, strings.ReplaceAll(each.Message, "\n", "\n  "))
	}
}

func (t *text) fields(all []difference.Field, more int) {
	for _, each := range all {
		switch {
		case each.Masked != "":
			t.line("  ~ %s: %s", each.Path, each.Masked)
			continue
		case each.Old != "":
			t.line("  - %s: %s", each.Path, each.Old)
		}
		if each.New != "" {
			t.line("  + %s: %s", each.Path, each.New)
		}
	}
	if more > 0 {
		t.line("  … and %d more fields", more)
	}
}

func (t *text) restarts(all []Restart) {
	if len(all) == 0 {
		return
	}
	t.title("Workloads that restart")
	for _, each := range all {
		times := ""
		if each.Times > 1 {
			times = fmt.Sprintf(", %d times", each.Times)
		}
		t.line("%s %s/%s%s", each.Kind, each.Namespace, each.Name, times)
		for _, reason := range each.Reasons {
			t.line("  because of %s", reason)
		}
	}
}

func (t *text) objects(all []Object) {
	if len(all) == 0 {
		return
	}
	t.title("Objects")
	for _, each := range all {
		place := ""
		if each.Set != "" {
			place = " (ManagedResource " + each.Set
			if each.Cluster == virtualCluster {
				place += ", virtual cluster"
			}
			place += ")"
		}
		t.line("%s %s %s%s", each.Action, each.APIVersion, each.describe(), place)
		t.fields(each.Fields, each.MoreFields)
	}
}

func (t *text) tasks(all []Task) {
	lines := make([]string, 0, len(all))
	for _, each := range all {
		var line string
		switch {
		case each.State == runs && (each.Writes > 0 || each.Seconds != nil && *each.Seconds >= 1):
			line = fmt.Sprintf("  %s: writes %d", each.Name, each.Writes)
			if each.Seconds != nil {
				line += ", took " + seconds(*each.Seconds)
			}
		case each.State == refused, each.State == waits:
			line = fmt.Sprintf("  %s: %s: %s", each.Name, each.State, each.Reason)
		default:
			continue
		}
		lines = append(lines, line)
	}
	if len(lines) == 0 {
		return
	}
	t.title("Tasks, with their times in the last reconciliation")
	t.line("%s", strings.Join(lines, "\n"))
}

// takeOver renders the report on a take-over.
func (t *text) takeOver(p *Plan) {
	if p.TakeOver == nil {
		return
	}
	for _, each := range []struct {
		title    string
		findings []takeover.Finding
	}{
		{"Workloads that restart because ManagedResources take them over", p.TakeOver.Restarts},
		{"Would be lost", p.TakeOver.Lost},
		{"Must be removed", p.TakeOver.Remove},
		{"Stays unmanaged", p.TakeOver.Unmanaged},
	} {
		t.title(each.title)
		if len(each.findings) == 0 {
			t.line("- nothing")
		}
		for _, f := range each.findings {
			t.line("%s %s%s", map[bool]string{true: "!", false: "-"}[f.Blocks], nameOfFinding(f), f.Message)
		}
	}
	if p.TakeOver.Confirm != "" {
		t.line("\nThe operator removes the leftovers above if the Garden confirms them, in its file or with:")
		t.line("  kubectl annotate garden %s --overwrite %s=%s", p.Garden, operatorv1alpha1.AnnotationConfirmLeftovers, p.TakeOver.Confirm)
	}
}

func nameOfFinding(f takeover.Finding) string {
	switch {
	case f.Object == "":
		return ""
	case f.Cluster == takeover.Virtual:
		return f.Object + " (virtual cluster): "
	}
	return f.Object + ": "
}
