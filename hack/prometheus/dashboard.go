package main

import (
	"encoding/json"
	"fmt"
	"os"
	"regexp"
)

// dashboard contains the fields of the JSON model that the checks use. encoding/json matches their names without regard to case.
type dashboard struct {
	UID, Title string
	Templating struct{ List []variable }
	Panels     []panel
}

type variable struct {
	Name, Type string
	Query      json.RawMessage
	AllValue   string
}

type panel struct {
	Type, Title, Description string
	GridPos                  gridPos
	FieldConfig              struct{ Defaults struct{ Unit string } }
	Targets                  []target
	Panels                   []panel
}

type gridPos struct{ H, W, X, Y int }

type target struct {
	RefID, Expr, LegendFormat string
}

func readDashboard(file string) (dashboard, error) {
	content, err := os.ReadFile(file)
	if err != nil {
		return dashboard{}, fmt.Errorf("read dashboard: %w", err)
	}
	var d dashboard
	if err := json.Unmarshal(content, &d); err != nil {
		return dashboard{}, fmt.Errorf("read dashboard %s: %w", file, err)
	}
	return d, nil
}

// all returns all panels of the dashboard in their order, including those in collapsed rows.
func (d dashboard) all() []panel {
	var panels []panel
	for _, p := range d.Panels {
		panels = append(panels, p)
		panels = append(panels, p.Panels...)
	}
	return panels
}

// substitutions are the values that Grafana inserts for variables when everything is selected. The intervals are far longer than the time
// between the first and the last scrape.
func (d dashboard) substitutions() map[string]string {
	values := map[string]string{"__rate_interval": "5m", "__interval": "15s", "__range": "1h"}
	for _, v := range d.Templating.List {
		if v.Type == "query" {
			values[v.Name] = v.AllValue
		}
	}
	return values
}

var variableUse = regexp.MustCompile(`\$\{?(\w+)\}?`)

// substitute replaces variables by their values. Unknown variables stay, so that the query cannot be parsed.
func substitute(expr string, values map[string]string) string {
	return variableUse.ReplaceAllStringFunc(expr, func(use string) string {
		if value, known := values[variableUse.FindStringSubmatch(use)[1]]; known {
			return value
		}
		return use
	})
}

var labelValues = regexp.MustCompile(`^label_values\((.+), *(\w+)\)$`)

// labelQuery returns the query of the variable: the values of a label of a metric.
func (v variable) labelQuery() (selector, label string, err error) {
	var object struct{ Query string }
	if err := json.Unmarshal(v.Query, &object); err != nil {
		return "", "", fmt.Errorf("query of variable %s: %w", v.Name, err)
	}
	parts := labelValues.FindStringSubmatch(object.Query)
	if parts == nil {
		return "", "", fmt.Errorf("query of variable %s: %q is not label_values(<selector>, <label>)", v.Name, object.Query)
	}
	return parts[1], parts[2], nil
}
