package main

import (
	"context"
	"fmt"
	"io"
	"strings"
	"text/tabwriter"

	"github.com/prometheus/prometheus/model/labels"
	"github.com/prometheus/prometheus/model/rulefmt"
)

// finding is the result of one query.
type finding struct {
	// where is the place of the query: a panel and its query, a variable, or an alert.
	where  string
	result string
	failed bool
}

// report prints for every query whether it has data. It fails if a query of the dashboard has none, or if an alert cannot be evaluated.
func report(ctx context.Context, s *store, board dashboard, alerts []rulefmt.Rule, out io.Writer) error {
	queries, err := boardFindings(ctx, s, board)
	if err != nil {
		return err
	}
	expressions, err := alertFindings(ctx, s, alerts)
	if err != nil {
		return err
	}
	failed := 0
	table := tabwriter.NewWriter(out, 0, 0, 3, ' ', 0)
	for _, f := range append(queries, expressions...) {
		_, _ = fmt.Fprintf(table, "%s\t%s\n", f.where, f.result)
		if f.failed {
			failed++
		}
	}
	if err := table.Flush(); err != nil {
		return err
	}
	if failed > 0 {
		return fmt.Errorf("%d of %d queries have no data", failed, len(queries)+len(expressions))
	}
	_, _ = fmt.Fprintf(out, "all %d queries of the dashboard return data, all %d alerts can be evaluated\n", len(queries), len(expressions))
	return nil
}

func boardFindings(ctx context.Context, s *store, board dashboard) ([]finding, error) {
	values := board.substitutions()
	var findings []finding
	for _, v := range board.Templating.List {
		if v.Type != "query" {
			continue
		}
		query, err := v.labelQuery()
		if err != nil {
			return nil, err
		}
		f, err := variableFinding(ctx, s, v.Name, query, values)
		if err != nil {
			return nil, err
		}
		findings = append(findings, f)
	}
	for _, p := range board.all() {
		for _, t := range p.Targets {
			f, err := queryFinding(ctx, s, fmt.Sprintf("panel %q, %s", p.Title, t.RefID), substitute(t.Expr, values))
			if err != nil {
				return nil, err
			}
			findings = append(findings, f)
		}
	}
	return findings, nil
}

func variableFinding(ctx context.Context, s *store, name string, query labelQuery, values map[string]string) (finding, error) {
	f := finding{where: "variable $" + name}
	found, err := s.series(ctx, substitute(query.selector, values))
	if err != nil {
		return finding{}, fmt.Errorf("evaluate variable %s: %w", name, err)
	}
	for _, series := range found {
		if series.Has(query.label) {
			f.result = "data"
			return f, nil
		}
	}
	f.result, f.failed = "NO DATA", true
	return f, nil
}

// queryFinding distinguishes data from the zero to which a query falls back: in that case it names the metrics without series.
func queryFinding(ctx context.Context, s *store, where, expr string) (finding, error) {
	found, err := s.series(ctx, expr)
	if err != nil {
		return finding{}, fmt.Errorf("evaluate %s: %w", where, err)
	}
	names, err := metricsOf(expr)
	if err != nil {
		return finding{}, fmt.Errorf("evaluate %s: %w", where, err)
	}
	missing, err := s.missing(ctx, names)
	if err != nil {
		return finding{}, fmt.Errorf("evaluate %s: %w", where, err)
	}
	switch {
	case len(found) == 0 && len(missing) > 0:
		return finding{where, "NO DATA: there is no " + strings.Join(missing, ", "), true}, nil
	case len(found) == 0:
		return finding{where, "NO DATA, although the metrics exist", true}, nil
	case len(missing) > 0:
		return finding{where, "0, since there is no " + strings.Join(missing, ", ") + " yet", false}, nil
	default:
		return finding{where, fmt.Sprintf("data (%d series)", len(found)), false}, nil
	}
}

// alertFindings reports for each alert whether its expression is true now; the alert fires only if that lasts.
func alertFindings(ctx context.Context, s *store, alerts []rulefmt.Rule) ([]finding, error) {
	var findings []finding
	for _, alert := range alerts {
		found, err := s.series(ctx, alert.Expr)
		if err != nil {
			return nil, fmt.Errorf("evaluate alert %s: %w", alert.Alert, err)
		}
		findings = append(findings, finding{where: "alert " + alert.Alert, result: stateOf(found, alert)})
	}
	return findings, nil
}

func stateOf(found []labels.Labels, alert rulefmt.Rule) string {
	switch {
	case len(found) == 0:
		return "quiet"
	case alert.For == 0:
		return "fires"
	default:
		return fmt.Sprintf("holds now, fires if it lasts %s", alert.For)
	}
}
