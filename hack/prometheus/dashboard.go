package main

import (
	"encoding/json"
	"fmt"
	"os"
	"regexp"
	"strings"
)

// dashboard contains the fields of Grafana's JSON that the checks use.
type dashboard struct {
	UID         string `json:"uid"`
	Title       string `json:"title"`
	Description string `json:"description"`
	Templating  struct {
		List []variable `json:"list"`
	} `json:"templating"`
	Panels []panel `json:"panels"`
}

type variable struct {
	Name       string          `json:"name"`
	Type       string          `json:"type"`
	Datasource *datasource     `json:"datasource"`
	Query      json.RawMessage `json:"query"`
	IncludeAll bool            `json:"includeAll"`
	AllValue   string          `json:"allValue"`
}

type datasource struct {
	Type string `json:"type"`
	UID  string `json:"uid"`
}

type panel struct {
	ID          int         `json:"id"`
	Type        string      `json:"type"`
	Title       string      `json:"title"`
	Description string      `json:"description"`
	Datasource  *datasource `json:"datasource"`
	GridPos     gridPos     `json:"gridPos"`
	FieldConfig struct {
		Defaults struct {
			Unit string `json:"unit"`
		} `json:"defaults"`
	} `json:"fieldConfig"`
	Targets []target `json:"targets"`
	Panels  []panel  `json:"panels"`
}

type gridPos struct {
	H int `json:"h"`
	W int `json:"w"`
	X int `json:"x"`
	Y int `json:"y"`
}

type target struct {
	RefID        string      `json:"refId"`
	Datasource   *datasource `json:"datasource"`
	Expr         string      `json:"expr"`
	LegendFormat string      `json:"legendFormat"`
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

// all returns the panels of the dashboard in their order, including those in collapsed rows.
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

// substitute replaces variables by their values. It keeps unknown variables, and the query then fails to parse.
func substitute(expr string, values map[string]string) string {
	return variableUse.ReplaceAllStringFunc(expr, func(use string) string {
		if value, known := values[variableUse.FindStringSubmatch(use)[1]]; known {
			return value
		}
		return use
	})
}

// labelQuery is the query of a variable: the values of a label of a metric.
type labelQuery struct{ selector, label string }

var labelValues = regexp.MustCompile(`^label_values\((.+), *(\w+)\)$`)

// labelQuery returns the query of the variable, which Grafana writes as a text or as an object.
func (v variable) labelQuery() (labelQuery, error) {
	var text string
	var object struct {
		Query string `json:"query"`
	}
	if json.Unmarshal(v.Query, &text) != nil && json.Unmarshal(v.Query, &object) == nil {
		text = object.Query
	}
	parts := labelValues.FindStringSubmatch(strings.TrimSpace(text))
	if parts == nil {
		return labelQuery{}, fmt.Errorf("query of variable %s: %q is not label_values(<selector>, <label>)", v.Name, text)
	}
	return labelQuery{selector: parts[1], label: parts[2]}, nil
}
