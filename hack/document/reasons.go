package main

import (
	"fmt"
	"regexp"
	"slices"
	"strings"
)

// reason is a reason of conditions. The comment of its constant has the form: "Name goes with Type=Status, Type=Status: meaning.", and
// after an empty line "Remedy: what to do."
type reason struct {
	word string
	// statuses are the statuses of the conditions, by the type of the condition.
	statuses map[string]string
	meaning  string
}

// reasons returns the table of the reasons of some conditions. The first argument is the folder of the constants, the others are the types
// of the conditions.
func (w *writer) reasons(arguments []string) (string, error) {
	folder, types := arguments[0], arguments[1:]
	all, err := constantsBelow(w.root, folder)
	if err != nil {
		return "", err
	}
	head := []string{"reason"}
	for _, each := range types {
		head = append(head, code(each))
	}
	var rows [][]string
	for _, each := range all {
		r, _ := reasonOf(each)
		row := []string{code(r.word)}
		for _, kind := range types {
			row = append(row, code(r.statuses[kind]))
			w.shown[reasonsOf(each.folder, kind)] = true
		}
		if slices.ContainsFunc(row[1:], func(cell string) bool { return cell != "" }) {
			rows = append(rows, append(row, r.meaning, each.remedy))
		}
	}
	if len(rows) == 0 {
		return "", fmt.Errorf("%s has no reasons of %s", folder, strings.Join(types, ", "))
	}
	return table(append(head, "meaning", "what to do"), rows), nil
}

// reasonsOf returns the key in writer.shown for the reasons of a type of conditions in a folder.
func reasonsOf(folder, kind string) string { return "reasons of " + kind + " in " + folder }

var (
	goesWith = regexp.MustCompile(`^\w+ (after the kind of an object )?goes with ((?:\w+=\w+(?:, )?)+): (.*)$`)
	status   = regexp.MustCompile(`(\w+)=(\w+)`)
)

// reasonOf returns the reason that a constant declares; false if it declares none. The name of a suffix is shown after the kind of an
// object.
func reasonOf(c constant) (reason, bool) {
	parts := goesWith.FindStringSubmatch(c.comment)
	if parts == nil {
		return reason{}, false
	}
	r := reason{word: c.value, statuses: map[string]string{}, meaning: sentence(parts[3])}
	if parts[1] != "" {
		r.word = "<Kind>" + r.word
	}
	for _, each := range status.FindAllStringSubmatch(parts[2], -1) {
		r.statuses[each[1]] = each[2]
	}
	return r, true
}

// sentence returns a text with a capital letter at its beginning.
func sentence(text string) string {
	if text == "" {
		return ""
	}
	return strings.ToUpper(text[:1]) + text[1:]
}
