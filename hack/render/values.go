package main

import (
	"bytes"
	"embed"
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"text/template"

	"sigs.k8s.io/yaml"

	"github.com/espalier-dev/espalier/internal/deployable"
)

//go:embed *.gotemplate
var templates embed.FS

// execute executes a template. Its delimiters are double brackets, because Helm's are double braces.
func execute(name string, data any) ([]byte, error) {
	parsed := template.New(name).Delims("[[", "]]")
	parsed.Funcs(template.FuncMap{
		"key": key, "config": configOf, "isClusterAdmin": isClusterAdmin, "impersonates": impersonates,
		"registry":         func() string { return registry },
		"replicas":         func() int { return deployable.Replicas },
		"criticalPriority": func() string { return deployable.CriticalPriority },
		// The purpose of a binary is a comment in the values.
		"purpose": func(b deployable.Binary) string { return strings.ReplaceAll(b.Purpose, "\n", "\n# ") },
	})
	if _, err := parsed.ParseFS(templates, name); err != nil {
		return nil, err
	}
	var out bytes.Buffer
	err := parsed.Execute(&out, data)
	return out.Bytes(), err
}

func isClusterAdmin(b deployable.Binary) bool {
	return slices.Contains(b.Roles, deployable.Role{Name: deployable.ClusterAdmin})
}

// schema returns the JSON schema of the values.
func schema() ([]byte, error) {
	text, err := execute("schema.gotemplate", deployable.All())
	if err != nil {
		return nil, err
	}
	compact, err := yaml.YAMLToJSON(text)
	if err != nil {
		return nil, fmt.Errorf("encode schema: %w", err)
	}
	var out bytes.Buffer
	err = json.Indent(&out, append(compact, '\n'), "", "  ")
	return out.Bytes(), err
}
