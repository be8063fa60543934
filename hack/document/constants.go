package main

import (
	"fmt"
	"go/ast"
	"go/token"
	"io/fs"
	"regexp"
	"strings"
)

// constant is a constant whose value is a literal, with its comment.
type constant struct {
	folder, name, value string
	// kind is the name of the constant's type; "" if the declaration names none.
	kind string
	// comment is the comment in one line, without the part after "Remedy: ". That part is remedy.
	comment, remedy string
	// isReason is true if its name begins with Reason, or the comment of its block with "Reasons of".
	isReason bool
}

// key is the key of a constant in writer.shown.
func (c constant) key() string { return c.folder + "." + c.name }

// constantsBelow returns the constants of the packages below a folder, in the order of their declarations.
func constantsBelow(root fs.FS, folder string) ([]constant, error) {
	files, err := parse(root, folder)
	var constants []constant
	for _, each := range files {
		for _, declaration := range each.syntax.Decls {
			block, ok := declaration.(*ast.GenDecl)
			if !ok || block.Tok != token.CONST {
				continue
			}
			for _, spec := range block.Specs {
				constants = append(constants, constantIn(block, spec, each.folder)...)
			}
		}
	}
	return constants, err
}

// constantIn returns the constant that a line of a block declares; none if its value is not a literal.
func constantIn(block *ast.GenDecl, line ast.Spec, folder string) []constant {
	spec, ok := line.(*ast.ValueSpec)
	if !ok || len(spec.Names) != 1 || len(spec.Values) != 1 || text(spec.Values[0]) == "" {
		return nil
	}
	comment := spec.Doc
	if !block.Lparen.IsValid() {
		comment = block.Doc
	}
	before, remedy, _ := strings.Cut(comment.Text(), "\nRemedy: ")
	name := spec.Names[0].Name
	return []constant{{
		folder: folder, name: name, value: text(spec.Values[0]), kind: lastName(spec.Type),
		comment: oneLine(before), remedy: sentence(oneLine(remedy)),
		isReason: strings.HasPrefix(name, "Reason") || strings.HasPrefix(block.Doc.Text(), "Reasons of "),
	}}
}

// unshownConstants returns an error for each constant that must be in a table and is in none: each reason of an Event, each reason and each
// type of a condition. It also returns an error for any other constant in a block of reasons.
func (w *writer) unshownConstants() []error {
	var errs []error
	for _, folder := range []string{"api", "internal"} {
		constants, err := constantsBelow(w.root, folder)
		if err != nil {
			errs = append(errs, err)
		}
		for _, each := range constants {
			errs = append(errs, w.unshown(each)...)
		}
	}
	return errs
}

func (w *writer) unshown(c constant) []error {
	r, isReason := reasonOf(c)
	var errs []error
	switch {
	case isReason:
		for kind := range r.statuses {
			if !w.shown[reasonsOf(c.folder, kind)] {
				errs = append(errs, fmt.Errorf("no table shows the reason %s of condition %s", r.word, kind))
			}
		}
	case isCondition(c) || isEvent(c):
		if !w.shown[c.key()] {
			errs = append(errs, fmt.Errorf("no table shows the constant %s of %s", c.name, c.folder))
		}
	case c.isReason:
		errs = append(errs, fmt.Errorf("the comment of %s in %s does not have the form of a reason", c.name, c.folder))
	}
	return errs
}

// event matches the comment of an Event's reason: "Name is a Type Event about an Object: meaning.", and after an empty line
// "Remedy: what to do."
var event = regexp.MustCompile(`^\w+ is a (Normal|Warning) Event about (?:an? |the )?([^:]+): (.*)$`)

func isEvent(c constant) bool { return event.MatchString(c.comment) }

// events returns the table of the Events of the packages below some folders.
func (w *writer) events(folders []string) (string, error) {
	return w.constants(folders, []string{"reason", "type", "about", "meaning", "what to do"}, func(c constant) []string {
		parts := event.FindStringSubmatch(c.comment)
		if parts == nil {
			return nil
		}
		return []string{code(c.value), parts[1], parts[2], sentence(parts[3]), c.remedy}
	})
}

// isCondition reports whether a constant is the type of a condition.
func isCondition(c constant) bool { return c.kind == "ConditionType" }

// conditions returns the table of the types of conditions that the packages below some folders declare. The comment of a type begins with
// its name and a verb.
func (w *writer) conditions(folders []string) (string, error) {
	return w.constants(folders, []string{"condition", "meaning", "what to do"}, func(c constant) []string {
		if !isCondition(c) {
			return nil
		}
		return []string{code(c.value), sentence(strings.TrimPrefix(c.comment, c.name+" ")), c.remedy}
	})
}

// constants returns a table of the constants below some folders. A constant for which rowOf returns no row is left out.
func (w *writer) constants(folders, head []string, rowOf func(constant) []string) (string, error) {
	var rows [][]string
	for _, folder := range folders {
		constants, err := constantsBelow(w.root, folder)
		if err != nil {
			return "", err
		}
		before := len(rows)
		for _, each := range constants {
			if row := rowOf(each); row != nil {
				rows = append(rows, row)
				w.shown[each.key()] = true
			}
		}
		if len(rows) == before {
			return "", fmt.Errorf("%s has no rows of this table", folder)
		}
	}
	return table(head, rows), nil
}
