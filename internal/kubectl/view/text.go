package view

import (
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"
	"unicode/utf8"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/duration"

	"github.com/espalier-dev/espalier/internal/excerpt"
)

// Answer is an answer that can be printed as text. Its JSON is the answer for programs.
type Answer interface{ Text(p *Printer) }

// Printer collects the text of an answer.
type Printer struct {
	strings.Builder
	// Wide shows more columns, and texts without a limit.
	Wide bool
	// Colours marks good and bad states by colours of terminals.
	Colours bool
	// Now is the time that ages refer to.
	Now time.Time
}

// colour is the code of a colour of a terminal; empty for the usual colour.
type colour string

const (
	plain  colour = ""
	red    colour = "31"
	green  colour = "32"
	yellow colour = "33"
)

// cell is a text in a table.
type cell struct {
	text   string
	colour colour
}

func text(s string) cell { return cell{text: s} }

func (p *Printer) paint(c cell, width int) string {
	c.text = excerpt.Printable(c.text)
	padding := ""
	if missing := width - utf8.RuneCountInString(c.text); missing > 0 {
		padding = strings.Repeat(" ", missing)
	}
	if !p.Colours || c.colour == plain {
		return c.text + padding
	}
	return "\x1b[" + string(c.colour) + "m" + c.text + "\x1b[0m" + padding
}

// table prints rows in columns. It does not use text/tabwriter, which counts the codes of colours as characters. A column whose name in
// the header begins with "+" is printed only if p.Wide is true.
func (p *Printer) table(header []string, rows [][]cell) {
	names := make([]cell, len(header))
	for i, name := range header {
		names[i] = text(strings.TrimPrefix(name, "+"))
	}
	lines := slices.Insert(rows, 0, names)
	widths := make([]int, len(header))
	for _, line := range lines {
		for i, c := range line {
			widths[i] = max(widths[i], utf8.RuneCountInString(c.text))
		}
	}
	for _, line := range lines {
		var cells []string
		for i, c := range line {
			if p.Wide || !strings.HasPrefix(header[i], "+") {
				cells = append(cells, p.paint(c, widths[i]))
			}
		}
		fmt.Fprintln(p, strings.TrimRight(strings.Join(cells, "   "), " "))
	}
}

// fact prints a line "name: value" of an indented list.
func (p *Printer) fact(name string, c cell) {
	if c.text != "" {
		c.text = strings.ReplaceAll(c.text, "\n", "\n"+strings.Repeat(" ", 19))
		fmt.Fprintf(p, "  %-16s %s\n", name+":", p.paint(c, 0))
	}
}

// maxBrief limits a text in a table that is not wide.
const maxBrief = 110

// brief returns a text for one line of a table.
func (p *Printer) brief(s string) cell {
	s = strings.Join(strings.Fields(s), " ")
	if !p.Wide {
		s = excerpt.Of(s, maxBrief)
	}
	return text(s)
}

// age returns how long ago a time was.
func (p *Printer) age(t metav1.Time) string {
	if t.IsZero() {
		return "unknown"
	}
	return duration.HumanDuration(p.Now.Sub(t.Time))
}

func (s State) cell() cell {
	switch s {
	case Healthy:
		return cell{string(s), green}
	case Failed, Unhealthy:
		return cell{string(s), red}
	default:
		return cell{string(s), yellow}
	}
}

// Sets are the states of several sets.
type Sets struct {
	Sets []Set `json:"sets"`
}

// Text implements Answer.
func (s Sets) Text(p *Printer) {
	if len(s.Sets) == 0 {
		fmt.Fprintln(p, "No ManagedResources found.")
		return
	}
	rows := make([][]cell, 0, len(s.Sets))
	for _, set := range s.Sets {
		rows = append(rows, []cell{
			text(set.Key()), set.State.cell(), text(strconv.Itoa(set.Objects)), text(p.age(set.Created)), text(set.Class),
			text(strings.Join(set.Secrets, ",")), p.brief(set.Problem),
		})
	}
	p.table([]string{"SET", "STATE", "OBJECTS", "AGE", "+CLASS", "+SECRETS", "PROBLEM"}, rows)
}

// Text implements Answer.
func (s Set) Text(p *Printer) {
	fmt.Fprintf(p, "ManagedResource %s: %s\n", s.Key(), p.paint(s.State.cell(), 0))
	p.fact("problem", text(s.Problem))
}

// Text implements Answer.
func (g Gone) Text(p *Printer) { fmt.Fprintf(p, "ManagedResource %s: deleted\n", g.Set) }
