package architecture_test

import (
	"fmt"
	"go/ast"
	"go/parser"
	"go/token"
	"io/fs"
	"path"
	"slices"
	"strconv"
	"strings"
)

const module = "github.com/espalier-dev/espalier"

// goFile is one parsed Go file of the product's module.
type goFile struct {
	path    string // below the root, with slashes
	test    bool   // true for tests, and for code that tests of several packages share
	imports []string
	syntax  *ast.File
	lines   int
}

func (f goFile) folder() string { return path.Dir(f.path) }

// tree contains the files that the rules check.
type tree struct {
	goFiles   []goFile
	generated []generatedFile
	positions *token.FileSet
}

// generatedFile is a file that a generator has written, detected by its name and folder.
type generatedFile struct {
	path      string
	firstLine string
	// marked is true if a Go file has the header for generated files that Go tools recognize.
	marked bool
}

// readTree reads the Go files and the generated YAML files below the root of the repository. It skips nested modules, folders with test
// data, hidden folders, and the folder bin.
func readTree(root fs.FS) (tree, error) {
	t := tree{positions: token.NewFileSet()}
	err := fs.WalkDir(root, ".", func(name string, entry fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		if entry.IsDir() {
			if name != "." && foreign(root, name) {
				return fs.SkipDir
			}
			return nil
		}
		return t.add(root, name)
	})
	return t, err
}

func foreign(root fs.FS, folder string) bool {
	base := path.Base(folder)
	if strings.HasPrefix(base, ".") || base == "testdata" || folder == "bin" {
		return true
	}
	_, err := fs.Stat(root, path.Join(folder, "go.mod"))
	return err == nil
}

func (t *tree) add(root fs.FS, name string) error {
	if path.Ext(name) != ".go" && !generatedYAML(name) {
		return nil
	}
	content, err := fs.ReadFile(root, name)
	if err != nil {
		return err
	}
	if generatedYAML(name) {
		first, _, _ := strings.Cut(string(content), "\n")
		t.generated = append(t.generated, generatedFile{path: name, firstLine: first})
		return nil
	}
	syntax, err := parser.ParseFile(t.positions, name, content, parser.ParseComments|parser.SkipObjectResolution)
	if err != nil {
		return fmt.Errorf("parse %s: %w", name, err)
	}
	imports := make([]string, 0, len(syntax.Imports))
	for _, spec := range syntax.Imports {
		imported, err := strconv.Unquote(spec.Path.Value)
		if err != nil {
			return fmt.Errorf("parse imports of %s: %w", name, err)
		}
		imports = append(imports, imported)
	}
	if strings.HasPrefix(path.Base(name), "zz_generated") {
		t.generated = append(t.generated, generatedFile{path: name, marked: ast.IsGenerated(syntax)})
	}
	t.goFiles = append(t.goFiles, goFile{
		path:    name,
		test:    strings.HasSuffix(name, "_test.go") || testSupport(path.Dir(name)),
		imports: imports,
		syntax:  syntax,
		lines:   strings.Count(string(content), "\n"),
	})
	return nil
}

// generatedYAML reports whether the file is a generated CRD or role. The kustomization files beside them are written by hand.
func generatedYAML(name string) bool {
	folder, file := path.Split(name)
	if path.Ext(file) != ".yaml" || file == "kustomization.yaml" {
		return false
	}
	parts := strings.Split(strings.TrimSuffix(folder, "/"), "/")
	return folder == "deploy/crds/" || (len(parts) == 3 && parts[0] == "deploy" && parts[2] == "rbac")
}

// testSupport reports whether the folder's name, such as httptest, means that only tests use the package.
func testSupport(folder string) bool {
	return inside("internal", folder) && strings.HasSuffix(path.Base(folder), "test")
}

// below returns the path below a top folder such as "internal": its first element, and the whole path.
func below(top, name string) (first, rest string, ok bool) {
	rest, ok = strings.CutPrefix(name, top+"/")
	first, _, _ = strings.Cut(rest, "/")
	return first, rest, ok
}

// inside reports whether the path is the folder or is inside it.
func inside(folder, name string) bool {
	return name == folder || strings.HasPrefix(name, folder+"/")
}

func insideAny(folders []string, name string) bool {
	return slices.ContainsFunc(folders, func(folder string) bool { return inside(folder, name) })
}
