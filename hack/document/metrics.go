package main

import (
	"fmt"
	"go/ast"
	"io/fs"
	"regexp"
	"strings"
)

// metric is a metric, with the information in its declaration.
type metric struct {
	folder, name, kind string
	labels             []string
	// meaning is the help text, followed by the comment above the declaration.
	meaning string
}

// metrics returns the table of the metrics below a folder.
func (w *writer) metrics(arguments []string) (string, error) {
	var rows [][]string
	for _, folder := range arguments {
		metrics, err := metricsBelow(w.root, folder)
		if err != nil {
			return "", err
		}
		if len(metrics) == 0 {
			return "", fmt.Errorf("%s has no metrics", folder)
		}
		for _, each := range metrics {
			w.shown[each.name] = true
			rows = append(rows, []string{code(each.name), each.kind, code(strings.Join(each.labels, "`, `")), each.meaning})
		}
	}
	return table([]string{"metric", "type", "labels", "meaning"}, rows), nil
}

// metricsBelow returns the metrics that the packages below a folder declare, in the order of the declarations.
func metricsBelow(root fs.FS, folder string) ([]metric, error) {
	files, err := parse(root, folder)
	if err != nil {
		return nil, err
	}
	var metrics []metric
	for _, each := range files {
		ast.Inspect(each.syntax, func(node ast.Node) bool {
			call, ok := node.(*ast.CallExpr)
			if !ok {
				return true
			}
			found := declared(call)
			if found.name == "" {
				return true
			}
			if found.kind == "" {
				found.kind = sentAs(files, each, call)
			}
			found.folder = each.folder
			found.meaning = strings.TrimSpace(found.meaning + " " + each.commentAbove(call))
			metrics = append(metrics, found)
			return true
		})
	}
	return metrics, nil
}

var constructor = regexp.MustCompile(`^New(Counter|Gauge|Histogram)(?:Vec|Func)?$`)

// declared returns the metric that a call constructs. Its name is empty if the call constructs no metric, its kind is empty if the call
// only describes one.
func declared(call *ast.CallExpr) metric {
	function := lastName(call.Fun)
	if function == "NewDesc" && len(call.Args) == 4 {
		return metric{name: text(call.Args[0]), meaning: text(call.Args[1]), labels: texts(call.Args[2])}
	}
	kind := constructor.FindStringSubmatch(function)
	if kind == nil || len(call.Args) == 0 {
		return metric{}
	}
	m := metric{kind: strings.ToLower(kind[1])}
	options, _ := call.Args[0].(*ast.CompositeLit)
	if options == nil {
		return metric{}
	}
	for _, element := range options.Elts {
		field, ok := element.(*ast.KeyValueExpr)
		if !ok {
			continue
		}
		switch lastName(field.Key) {
		case "Name":
			m.name = text(field.Value)
		case "Help":
			m.meaning = text(field.Value)
		case "ConstLabels":
			m.labels = texts(field.Value)
		}
	}
	if strings.HasSuffix(function, "Vec") {
		m.labels = texts(call.Args[1])
	}
	return m
}

// texts returns the elements of a list of string literals, or the keys of a map with such keys.
func texts(node ast.Expr) []string {
	list, _ := node.(*ast.CompositeLit)
	if list == nil {
		return nil
	}
	var found []string
	for _, element := range list.Elts {
		if pair, ok := element.(*ast.KeyValueExpr); ok {
			element = pair.Key
		}
		found = append(found, text(element))
	}
	return found
}

// sentAs returns the kind of a metric that code sends as a constant metric: the kind in the call that names the variable or field to which
// the description is assigned.
func sentAs(files []file, in file, description *ast.CallExpr) string {
	name := assignedTo(in.syntax, description)
	kind := "gauge"
	for _, each := range files {
		if each.folder != in.folder {
			continue
		}
		ast.Inspect(each.syntax, func(node ast.Node) bool {
			call, ok := node.(*ast.CallExpr)
			if !ok || len(call.Args) < 2 || lastName(call.Args[0]) != name {
				return true
			}
			switch {
			case lastName(call.Fun) == "MustNewConstHistogram":
				kind = "histogram"
			case lastName(call.Fun) == "MustNewConstMetric" && lastName(call.Args[1]) == "CounterValue":
				kind = "counter"
			}
			return true
		})
	}
	return kind
}

// assignedTo returns the name of the variable or field to which a value is assigned.
func assignedTo(in *ast.File, value ast.Expr) string {
	name := ""
	ast.Inspect(in, func(node ast.Node) bool {
		switch n := node.(type) {
		case *ast.KeyValueExpr:
			if n.Value == value {
				name = lastName(n.Key)
			}
		case *ast.AssignStmt:
			for i, each := range n.Rhs {
				if each == value {
					name = lastName(n.Lhs[i])
				}
			}
		}
		return true
	})
	return name
}
