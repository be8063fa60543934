package load

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
)

// resultLimit is the maximum length of a result, in bytes, because the result is a cell of a table.
const resultLimit = 300

// Promise defines conditions for one period of work, in addition to the general rules: nothing is lost, no needed object is deleted, no Pod
// is accepted without the webhooks, and everything is in the expected state at the end.
type Promise struct {
	// Asked is the minimum number of Pods that must have been sent to the webhooks: without any, their availability is unknown.
	Asked int
	// Answered is the reason why webhooks must answer all the time; empty if they need not.
	Answered string
}

// Outcome is the result of one period of work.
type Outcome struct {
	Figures Figures
	// Lost are values that have not arrived, and changes that were not accepted. Deleted are needed objects that were deleted.
	Lost, Deleted []string
	// Unsynced is the error about objects that are not in the expected state at the end. Unknown is the error about objects that could not
	// be read, so that Lost or Deleted are incomplete.
	Unsynced, Unknown error
}

// Outcome determines the values and objects that were lost and deleted since the Baseline. The load must not be running; unsynced is the
// result of AwaitSync.
func (l *Load) Outcome(ctx context.Context, since Baseline, figures Figures, unsynced error) Outcome {
	o := Outcome{Figures: figures, Unsynced: unsynced}
	var lagging map[string]string
	var unseen error
	if unsynced != nil {
		lagging, _, unseen = l.lagging(ctx)
	}
	o.Lost = lost(figures.Unaccepted, lagging)
	deleted, err := l.WrongDeletions(ctx, since)
	o.Deleted, o.Unknown = deleted, errors.Join(unseen, err)
	return o
}

// lost returns each lost value once.
func lost(unaccepted, lagging map[string]string) []string {
	all := map[string]string{}
	maps.Copy(all, lagging)
	maps.Copy(all, unaccepted)
	return sentences(all)
}

func sentences(states map[string]string) []string {
	lines := make([]string, 0, len(states))
	for name, state := range states {
		lines = append(lines, name+" "+state)
	}
	slices.Sort(lines)
	return lines
}

// Broken returns the violations of the promise and of the general rules; empty if there are none.
func (o Outcome) Broken(p Promise) []string {
	var broken []string
	for _, each := range []struct {
		isBroken bool
		text     string
	}{
		{len(o.Lost) > 0, "every change arrives, but: " + strings.Join(o.Lost, ", ")},
		{len(o.Deleted) > 0, "nothing is deleted that should be there, but: " + strings.Join(o.Deleted, ", ")},
		{o.Figures.Unchanged > 0, fmt.Sprintf("no Pod is accepted without the webhooks, but %d were", o.Figures.Unchanged)},
		{p.Answered != "" && o.Figures.Unanswered > 0, fmt.Sprintf("%s, but %d Pods were not accepted", p.Answered, o.Figures.Unanswered)},
		{o.Figures.Asked < p.Asked, fmt.Sprintf("%d Pods or more are shown to the webhooks, but %d were", p.Asked, o.Figures.Asked)},
		{o.Unsynced != nil, fmt.Sprintf("everything recovers, but: %v", o.Unsynced)},
		{o.Unknown != nil, fmt.Sprintf("everything can be looked at, but: %v", o.Unknown)},
	} {
		if each.isBroken {
			broken = append(broken, each.text)
		}
	}
	return broken
}

// Result returns the text for a table: "passed", or the violations, in one line.
func Result(broken []string) string {
	if len(broken) == 0 {
		return "passed"
	}
	text := strings.Join(strings.Fields(strings.ReplaceAll("**failed**: "+strings.Join(broken, "; "), "|", "/")), " ")
	if len(text) > resultLimit {
		text = strings.ToValidUTF8(text[:resultLimit], "") + " …"
	}
	return text
}
