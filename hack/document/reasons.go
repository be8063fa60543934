package main

import (
	"fmt"
	"go/ast"
	"io/fs"
	"regexp"
	"slices"
	"strings"
)

// reason is a reason of conditions, as the comment of its constant describes it: "Name goes with Type=Status, Type=Status: meaning.", and
// after an empty line "Remedy: what to do."
type reason struct {
	word string
	// statuses are the statuses of conditions, by type.
	statuses        map[string]string
	meaning, remedy string
}

// reasons returns the table of the reasons of some conditions. The first argument is the folder of the constants, the others are types.
func (w *writer) reasons(arguments []string) (string, error) {
	folder, types := arguments[0], arguments[1:]
	all, err := reasonsIn(w.root, folder)
	if err != nil {
		return "", err
	}
	head := []string{"reason"}
	for _, each := range types {
		head = append(head, code(each))
	}
	var rows [][]string
	for _, each := range all {
		row := []string{code(each.word)}
		for _, kind := range types {
			row = append(row, code(each.statuses[kind]))
			w.shown[folder+" "+kind] = true
		}
		if slices.ContainsFunc(row[1:], func(cell string) bool { return cell != "" }) {
			rows = append(rows, append(row, each.meaning, each.remedy))
		}
	}
	if len(rows) == 0 {
		return "", fmt.Errorf("%s has no reasons of %s", folder, strings.Join(types, ", "))
	}
	w.reasonFolders[folder] = true
	return table(append(head, "meaning", "what to do"), rows), nil
}

// unshownReasons returns the conditions for which a folder declares reasons, and of which no table shows them.
func (w *writer) unshownReasons() []error {
	var errs []error
	for folder := range w.reasonFolders {
		all, err := reasonsIn(w.root, folder)
		if err != nil {
			errs = append(errs, err)
		}
		for _, each := range all {
			for kind := range each.statuses {
				if !w.shown[folder+" "+kind] {
					errs = append(errs, fmt.Errorf("no table shows the reason %s of condition %s", each.word, kind))
				}
			}
		}
	}
	return errs
}

var (
	goesWith = regexp.MustCompile(`^\w+ (after the kind of an object )?goes with ((?:\w+=\w+(?:, )?)+): (.*)$`)
	status   = regexp.MustCompile(`(\w+)=(\w+)`)
)

// reasonsIn returns the reasons that constants in a folder declare, in their order. A suffix stands after the kind of an object.
func reasonsIn(root fs.FS, folder string) ([]reason, error) {
	files, err := parse(root, folder)
	var reasons []reason
	for _, each := range files {
		ast.Inspect(each.syntax, func(node ast.Node) bool {
			spec, ok := node.(*ast.ValueSpec)
			if !ok || len(spec.Values) != 1 {
				return true
			}
			comment, remedy, _ := strings.Cut(spec.Doc.Text(), "\nRemedy: ")
			parts := goesWith.FindStringSubmatch(oneLine(comment))
			if parts == nil {
				return true
			}
			r := reason{word: text(spec.Values[0]), statuses: map[string]string{}, meaning: sentence(parts[3]), remedy: sentence(oneLine(remedy))}
			if parts[1] != "" {
				r.word = "<Kind>" + r.word
			}
			for _, each := range status.FindAllStringSubmatch(parts[2], -1) {
				r.statuses[each[1]] = each[2]
			}
			reasons = append(reasons, r)
			return true
		})
	}
	return reasons, err
}

// sentence returns a text with a capital letter at its beginning.
func sentence(text string) string {
	if text == "" {
		return ""
	}
	return strings.ToUpper(text[:1]) + text[1:]
}
