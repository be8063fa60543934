package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"slices"
	"strings"
	"text/tabwriter"

	"github.com/prometheus/common/model"
	"github.com/prometheus/prometheus/model/labels"
	"github.com/prometheus/prometheus/model/rulefmt"
)

// readAlerts reads a rule file as Prometheus does.
func readAlerts(file string) ([]rulefmt.Rule, error) {
	groups, problems := rulefmt.ParseFile(file, false, model.LegacyValidation, newParser(), slog.New(slog.DiscardHandler))
	if len(problems) > 0 {
		return nil, errors.Join(problems...)
	}
	var rules []rulefmt.Rule
	for _, group := range groups.Groups {
		rules = append(rules, group.Rules...)
	}
	return rules, nil
}

// query is an expression to evaluate.
type query struct {
	// name is the name of a panel with its query, of a variable, or of an alert.
	name, expr string
	// judge returns the result for the found series, and whether the check fails. The argument missing contains the metrics that have no
	// series.
	judge func(found []labels.Labels, missing []string) (result string, failed bool)
}

// report prints for every query whether it has data. It fails if a query of the dashboard has none, or if an alert cannot be evaluated.
func report(ctx context.Context, s *store, board dashboard, alerts []rulefmt.Rule, out io.Writer) error {
	queries, err := board.queries()
	if err != nil {
		return err
	}
	for _, alert := range alerts {
		queries = append(queries, query{name: "alert " + alert.Alert, expr: alert.Expr, judge: stateOf(alert)})
	}
	failures := 0
	table := tabwriter.NewWriter(out, 0, 0, 3, ' ', 0)
	for _, q := range queries {
		found, missing, err := s.evaluate(ctx, q.expr)
		if err != nil {
			return fmt.Errorf("evaluate %s: %w", q.name, err)
		}
		result, failed := q.judge(found, missing)
		_, _ = fmt.Fprintf(table, "%s\t%s\n", q.name, result)
		if failed {
			failures++
		}
	}
	if err := table.Flush(); err != nil {
		return err
	}
	if failures > 0 {
		return fmt.Errorf("%d of %d queries have no data", failures, len(queries))
	}
	_, _ = fmt.Fprintf(out, "all %d queries of the dashboard return data, all %d alerts can be evaluated\n",
		len(queries)-len(alerts), len(alerts))
	return nil
}

// queries lists the queries of the variables and of all panels.
func (d dashboard) queries() ([]query, error) {
	values := d.substitutions()
	var queries []query
	for _, v := range d.Templating.List {
		if v.Type != "query" {
			continue
		}
		selector, label, err := v.labelQuery()
		if err != nil {
			return nil, err
		}
		queries = append(queries, query{name: "variable $" + v.Name, expr: substitute(selector, values), judge: hasLabel(label)})
	}
	for _, p := range d.all() {
		for _, t := range p.Targets {
			name := fmt.Sprintf("panel %q, %s", p.Title, t.RefID)
			queries = append(queries, query{name: name, expr: substitute(t.Expr, values), judge: hasData})
		}
	}
	return queries, nil
}

func hasLabel(label string) func([]labels.Labels, []string) (string, bool) {
	return func(found []labels.Labels, _ []string) (string, bool) {
		if slices.ContainsFunc(found, func(series labels.Labels) bool { return series.Has(label) }) {
			return "data", false
		}
		return "NO DATA", true
	}
}

// hasData checks that a query has data. If a query falls back to zero, that is no data; the result then names the metrics without series.
func hasData(found []labels.Labels, missing []string) (string, bool) {
	switch {
	case len(found) == 0 && len(missing) > 0:
		return "NO DATA: there is no " + strings.Join(missing, ", "), true
	case len(found) == 0:
		return "NO DATA, although the metrics exist", true
	case len(missing) > 0:
		return "0, since there is no " + strings.Join(missing, ", ") + " yet", false
	default:
		return fmt.Sprintf("data (%d series)", len(found)), false
	}
}

// stateOf returns a function that reports whether the expression of an alert is true now. The alert would fire only if it stays true.
func stateOf(alert rulefmt.Rule) func([]labels.Labels, []string) (string, bool) {
	return func(found []labels.Labels, _ []string) (string, bool) {
		switch {
		case len(found) == 0:
			return "quiet", false
		case alert.For == 0:
			return "fires", false
		default:
			return fmt.Sprintf("holds now, fires if it lasts %s", alert.For), false
		}
	}
}
