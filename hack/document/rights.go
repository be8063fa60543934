package main

import (
	"fmt"
	"go/ast"
	"slices"
	"strings"

	"github.com/espalier-dev/espalier/internal/deployable"
)

// rights returns the table of the rights that the markers of a family grant, each with the comment above the marker.
func (w *writer) rights(arguments []string) (string, error) {
	family := arguments[0]
	all := deployable.All()
	i := slices.IndexFunc(all, func(b deployable.Binary) bool { return b.Family == family })
	if i < 0 {
		return "", fmt.Errorf("%s is not the family of a binary", family)
	}
	files, err := parse(w.root, "internal/"+family)
	if err != nil {
		return "", err
	}
	var rows [][]string
	for _, each := range files {
		for _, group := range each.syntax.Comments {
			rows = append(rows, rightsIn(group, "espalier-"+all[i].Name+"-source")...)
		}
	}
	// The roles are in the order of their names, rights in the order of the code.
	slices.SortStableFunc(rows, func(a, b []string) int { return strings.Compare(a[0], b[0]) })
	return table([]string{"role", "right", "why"}, rows), nil
}

// rightsIn returns the rows of the markers in a comment. Of consecutive markers, all have the reason in the comment above the first one.
func rightsIn(group *ast.CommentGroup, role string) [][]string {
	var rows [][]string
	reason, marked := "", false
	for _, line := range group.List {
		marker, isMarker := strings.CutPrefix(line.Text, "// +kubebuilder:rbac:")
		switch {
		case isMarker:
			named, right := granted(marker, role)
			rows = append(rows, []string{code(named), code(right), oneLine(reason)})
		case marked:
			reason = strings.TrimPrefix(line.Text, "//")
		default:
			reason += strings.TrimPrefix(line.Text, "//")
		}
		marked = isMarker
	}
	return rows
}

// granted returns the role that a marker is for, and the right as text for a cell of the table.
func granted(marker, role string) (grantee, right string) {
	values := map[string]string{}
	for pair := range strings.SplitSeq(marker, ",") {
		key, value, _ := strings.Cut(pair, "=")
		values[key] = strings.ReplaceAll(strings.Trim(value, `"`), ";", ", ")
	}
	if values["roleName"] != "" {
		role = values["roleName"]
	}
	what := values["resources"] + values["urls"]
	if values["groups"] != "" {
		what += "." + values["groups"]
	}
	if values["resourceNames"] != "" {
		what += " " + values["resourceNames"]
	}
	if values["namespace"] != "" {
		what += " in " + values["namespace"]
	}
	return role, values["verbs"] + " " + what
}
