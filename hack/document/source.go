package main

import (
	"go/ast"
	"go/parser"
	"go/token"
	"io/fs"
	"path"
	"strconv"
	"strings"
)

// file is a parsed Go file.
type file struct {
	folder string
	syntax *ast.File
	lines  []string
	set    *token.FileSet
}

// parse parses the Go files below a folder, except for tests, in the order of their paths.
func parse(root fs.FS, folder string) ([]file, error) {
	var files []file
	err := fs.WalkDir(root, folder, func(name string, entry fs.DirEntry, err error) error {
		if err != nil || entry.IsDir() || path.Ext(name) != ".go" || strings.HasSuffix(name, "_test.go") {
			return err
		}
		content, err := fs.ReadFile(root, name)
		if err != nil {
			return err
		}
		set := token.NewFileSet()
		syntax, err := parser.ParseFile(set, name, content, parser.ParseComments|parser.SkipObjectResolution)
		files = append(files, file{folder: path.Dir(name), syntax: syntax, lines: strings.Split(string(content), "\n"), set: set})
		return err
	})
	return files, err
}

// commentAbove returns, in one line, the comment that ends on the line before a node.
func (f file) commentAbove(node ast.Node) string {
	line := f.set.Position(node.Pos()).Line
	for _, group := range f.syntax.Comments {
		first := f.lines[f.set.Position(group.Pos()).Line-1]
		if f.set.Position(group.End()).Line == line-1 && strings.HasPrefix(strings.TrimSpace(first), "//") {
			return oneLine(group.Text())
		}
	}
	return ""
}

func oneLine(text string) string { return strings.Join(strings.Fields(text), " ") }

// text returns the value of a string literal, or of string literals that are joined by +; "" for other nodes.
func text(node ast.Expr) string {
	switch n := node.(type) {
	case *ast.BasicLit:
		value, err := strconv.Unquote(n.Value)
		if err == nil {
			return value
		}
	case *ast.BinaryExpr:
		return text(n.X) + text(n.Y)
	}
	return ""
}

// lastName returns the name of a variable, or of the last field in a chain of them.
func lastName(node ast.Node) string {
	switch n := node.(type) {
	case *ast.Ident:
		return n.Name
	case *ast.SelectorExpr:
		return n.Sel.Name
	}
	return ""
}
