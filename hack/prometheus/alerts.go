package main

import (
	"errors"
	"log/slog"

	"github.com/prometheus/common/model"
	"github.com/prometheus/prometheus/model/rulefmt"
	"github.com/prometheus/prometheus/promql/parser"
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

// newParser returns a parser with the syntax of a Prometheus without feature flags.
func newParser() parser.Parser { return parser.NewParser(parser.Options{}) }

// metricsOf returns the names of the metrics that the expression selects.
func metricsOf(expr string) ([]string, error) {
	parsed, err := newParser().ParseExpr(expr)
	if err != nil {
		return nil, err
	}
	var names []string
	parser.Inspect(parsed, func(node parser.Node, _ []parser.Node) error {
		if selector, ok := node.(*parser.VectorSelector); ok {
			names = append(names, selector.Name)
		}
		return nil
	})
	return names, nil
}
