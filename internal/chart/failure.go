package chart

import (
	"fmt"
	"maps"
	"regexp"
	"slices"
	"strconv"
	"strings"

	"github.com/espalier-dev/espalier/internal/excerpt"
)

// RenderError is the reason why a chart cannot be rendered. It contains no values, neither in their original form nor in the form that a
// template gives them: the error is shown in the status of objects that more people may read than the Secrets from which values come.
type RenderError struct {
	// Chart is the name of the chart; empty if the archive is not a chart.
	Chart string `json:"chart,omitempty"`
	// Template is the path of the template; empty if the fault is in no template.
	Template string `json:"template,omitempty"`
	// Line is the line in the template; 0 if it is not known.
	Line int `json:"line,omitempty"`
	// Cause is at most 512 bytes long.
	Cause string `json:"cause"`
}

// maxCause bounds the cause, in bytes.
const maxCause = 512

func failure(chart, cause string) *RenderError { return &RenderError{Chart: chart, Cause: cause} }

// bounded returns the failure with texts of limited length.
func (f *RenderError) bounded() *RenderError {
	return &RenderError{
		Chart: excerpt.Of(f.Chart, maxName), Template: excerpt.Of(f.Template, maxName), Line: f.Line, Cause: excerpt.Of(f.Cause, maxCause),
	}
}

// Error implements error.
func (f *RenderError) Error() string {
	f = f.bounded()
	message := "render chart"
	if f.Chart != "" {
		message += fmt.Sprintf(" %q", f.Chart)
	}
	if f.Template != "" {
		message += ": template " + f.Template
	}
	if f.Line > 0 {
		message += fmt.Sprintf(", line %d", f.Line)
	}
	return message + ": " + f.Cause
}

var (
	place = regexp.MustCompile(`([^\s()":]+):(\d+)`)
	// refusals match calls of fail and required, by which a chart ends its rendering, with a literal text. Such a text contains no value.
	refusals = []*regexp.Regexp{
		regexp.MustCompile(`\b(?:fail|required)\s+("(?:[^"\\\n]|\\.)*"|` + "`[^`]*`)"),
		regexp.MustCompile(`("(?:[^"\\\n]|\\.)*"|` + "`[^`]*`" + `)\s*\|\s*fail\b`),
	}
	function = regexp.MustCompile(`error calling (\w+):`)
	// faults are causes of Go's templates that name fields, types and functions, and never values.
	faults = []*regexp.Regexp{
		regexp.MustCompile(`nil pointer evaluating [\w.{} ]+`),
		regexp.MustCompile(`can't evaluate field \w+ in type [\w.{}*\[\]]+`),
		regexp.MustCompile(`no template "[\w./-]+" associated`),
		regexp.MustCompile(`exceeded maximum template depth`),
		regexp.MustCompile(`nested reference name`),
		regexp.MustCompile(`wrong number of args for \w+`),
		regexp.MustCompile(`incompatible types for comparison`),
		regexp.MustCompile(`range can't iterate over`),
	}
	schemaField = regexp.MustCompile(`(?m)^\s*- at '([^'\n]*)'`)
	yamlLine    = regexp.MustCompile(`\bline (\d+)`)
)

// templateFailure describes an error of Helm's engine without its message, which may quote values. Message is the text with which the chart
// ended its rendering. It is shown if it stands in the chart word by word.
func templateFailure(chart string, err error, message string, sources map[string]string) *RenderError {
	reported := err.Error()
	f := &RenderError{Chart: chart, Cause: "failed for a reason that may contain values"}
	for _, match := range place.FindAllStringSubmatch(reported, -1) {
		if _, known := sources[match[1]]; known {
			f.Template = match[1]
			f.Line, _ = strconv.Atoi(match[2])
			break
		}
	}
	calls := function.FindAllStringSubmatch(reported, -1)
	switch {
	case message != "" && isLiteral(message, sources):
		f.Cause = message
	case message != "":
		f.Cause = "ended by the chart with a message that may contain values"
	case strings.HasPrefix(reported, "parse error"):
		f.Cause = "not a template: " + reported
	case slices.ContainsFunc(calls, func(call []string) bool { return call[1] == "tpl" }):
		// Names in the template are values, too.
		f.Cause = "a value that the function tpl reads is not a template that works"
	default:
		for _, fault := range faults {
			if match := fault.FindString(reported); match != "" {
				f.Cause = match
				return f
			}
		}
		if len(calls) > 0 {
			f.Cause = "function " + calls[len(calls)-1][1] + " failed"
		}
	}
	return f
}

func isLiteral(message string, sources map[string]string) bool {
	for _, source := range sources {
		for _, pattern := range refusals {
			for _, match := range pattern.FindAllStringSubmatch(source, -1) {
				if literal, err := strconv.Unquote(match[1]); err == nil && literal == message {
					return true
				}
			}
		}
	}
	return false
}

// schemaCause returns the fields that do not fit the schema of a chart. The library's message quotes their values.
func schemaCause(err error) string {
	fields := map[string]bool{}
	for _, match := range schemaField.FindAllStringSubmatch(err.Error(), -1) {
		fields[match[1]] = true
	}
	if len(fields) == 0 {
		return "values.schema.json cannot be used; documents that it refers to are not read"
	}
	return "values do not fit values.schema.json at " + strings.Join(slices.Sorted(maps.Keys(fields)), ", ")
}

// lineOf returns the line of an error of the YAML library as the end of a sentence; "" if it names none.
func lineOf(err error) string {
	if match := yamlLine.FindStringSubmatch(err.Error()); match != nil {
		return ", line " + match[1]
	}
	return ""
}
