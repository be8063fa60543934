package main

import (
	"io/fs"

	"sigs.k8s.io/yaml"
)

// unrepaired returns the table of a file of edits that managedresource-controller does not repair.
func (w *writer) unrepaired(arguments []string) (string, error) {
	content, err := fs.ReadFile(w.root, arguments[0])
	if err != nil {
		return "", err
	}
	var edits []struct{ What, Why string }
	if err := yaml.Unmarshal(content, &edits); err != nil {
		return "", err
	}
	rows := make([][]string, len(edits))
	for i, each := range edits {
		rows[i] = []string{each.What, each.Why}
	}
	return table([]string{"a change by another client", "stays because"}, rows), nil
}
