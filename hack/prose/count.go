package main

import (
	"fmt"
	"go/ast"
	"go/parser"
	"go/token"
	"io/fs"
	"path"
	"regexp"
	"strings"
)

// kind is a kind of wording that is counted.
type kind string

// rules are the kinds with their patterns. A pattern matches in the text of a comment, across its lines.
func rules() map[kind]*regexp.Regexp {
	return map[kind]*regexp.Regexp{
		"what":  regexp.MustCompile(`(?i)\bwhat\b`),
		"those": regexp.MustCompile(`\b([Tt]hat\s+of|[Tt]hose\s+(that|with|of))\b`),
		"words": regexp.MustCompile(`(?i)\b(nobody|somebody|whoever|who\s+is\s+due|tells?\s+(that|whether|which|when|how)|mend(s|ed)?|` +
			`spoil(s|ed|t)?|look(s|ed)?\s+at|lets?\s+go|lies?\s+in|parted\s+by)\b`),
	}
}

// finding is a comment line that matches a rule.
type finding struct {
	file string
	line int
	text string
}

func (f finding) String() string { return fmt.Sprintf("%s:%d: %s", f.file, f.line, f.text) }

// comments are the counts of one package, which is a folder with its tests.
type comments struct {
	lines int
	found map[kind][]finding
}

// readPackages counts the comments of all packages below a root, also in nested modules, except for generated files, test data and hidden
// folders. The keys are folders.
func readPackages(root fs.FS) (map[string]*comments, error) {
	packages := map[string]*comments{}
	patterns := rules()
	err := fs.WalkDir(root, ".", func(name string, entry fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		if base := path.Base(name); entry.IsDir() && name != "." && (base == "testdata" || base == "bin" || strings.HasPrefix(base, ".")) {
			return fs.SkipDir
		}
		if entry.IsDir() || path.Ext(name) != ".go" {
			return nil
		}
		content, err := fs.ReadFile(root, name)
		if err != nil {
			return err
		}
		folder := path.Dir(name)
		if packages[folder] == nil {
			packages[folder] = &comments{found: map[kind][]finding{}}
		}
		return packages[folder].add(name, content, patterns)
	})
	return packages, err
}

// add counts the comments of a file.
func (c *comments) add(name string, content []byte, patterns map[kind]*regexp.Regexp) error {
	files := token.NewFileSet()
	syntax, err := parser.ParseFile(files, name, content, parser.ParseComments|parser.SkipObjectResolution)
	if err != nil {
		return fmt.Errorf("parse %s: %w", name, err)
	}
	if ast.IsGenerated(syntax) {
		return nil
	}
	for _, group := range syntax.Comments {
		c.addGroup(name, textLines(files, group), patterns)
	}
	return nil
}

func (c *comments) addGroup(name string, lines []line, patterns map[kind]*regexp.Regexp) {
	c.lines += len(lines)
	texts := make([]string, 0, len(lines))
	for _, each := range lines {
		texts = append(texts, each.text)
	}
	all := strings.Join(texts, "\n")
	for kind, pattern := range patterns {
		last := -1
		for _, at := range pattern.FindAllStringIndex(all, -1) {
			if i := strings.Count(all[:at[0]], "\n"); i != last {
				c.found[kind] = append(c.found[kind], finding{file: name, line: lines[i].number, text: lines[i].text})
				last = i
			}
		}
	}
}

// line is the prose of a comment line.
type line struct {
	number int
	text   string
}

var (
	directive = regexp.MustCompile(`^//([a-z]+:[a-z]|export |line | ?\+[a-z])`)
	reason    = regexp.MustCompile(`^//nolint:[a-z,]+ (// .*)$`)
	quoted    = regexp.MustCompile("`[^`]*`|\"[^\"]*\"")
)

// textLines returns the prose of a comment, line by line, without directives, empty lines, code blocks, and words in quotation marks or in
// code spans. The reason of a nolint directive counts.
func textLines(files *token.FileSet, group *ast.CommentGroup) []line {
	var lines []line
	for _, comment := range group.List {
		first := files.Position(comment.Pos()).Line
		for i, text := range strings.Split(comment.Text, "\n") {
			if found := reason.FindStringSubmatch(text); found != nil {
				text = found[1]
			}
			if directive.MatchString(text) || strings.HasPrefix(text, "//\t") {
				continue
			}
			text = strings.TrimSpace(strings.TrimLeft(text, "/* "))
			if text != "" {
				lines = append(lines, line{number: first + i, text: quoted.ReplaceAllString(text, `""`)})
			}
		}
	}
	return lines
}
