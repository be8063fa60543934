package architecture_test

import (
	"fmt"
	"go/ast"
	"path"
	"slices"
	"strings"
)

// rule returns one sentence for each violation, beginning with the path.
type rule func(layout, tree) []string

func rules() []rule {
	return []rule{
		foldersAreKnown,
		foldersAreShallow,
		importsGoDown,
		apiTypesStayLean,
		chartLibrariesStayInChart,
		pureFilesDoNoIO,
		noLiteralSetsRequeue,
		generatedFilesSaySo,
		markersAreRead,
		mainsAreShort,
	}
}

func foldersAreKnown(l layout, t tree) []string {
	var broken []string
	for _, folder := range goFolders(t) {
		if first, rest, ok := below("internal", folder); ok && !slices.Contains(l.shared, rest) && !slices.Contains(l.families, first) {
			broken = append(broken, folder+" is unknown: list it in internal/architecture/folders_test.go, or its family in internal/deployable")
		}
		if first, _, ok := below("cmd", folder); ok && l.binaries[first] == "" {
			broken = append(broken, folder+" is unknown: say in internal/deployable/binaries.go which family runs in it")
		}
	}
	return broken
}

func foldersAreShallow(_ layout, t tree) []string {
	var broken []string
	for _, folder := range goFolders(t) {
		if strings.Count(folder, "/") > 3 {
			broken = append(broken, folder+" is more than four folders below the root")
		}
	}
	return broken
}

// importsGoDown checks the direction of imports: cmd → family → shared → api.
func importsGoDown(l layout, t tree) []string {
	var broken []string
	for _, file := range t.goFiles {
		for _, imported := range file.imports {
			target, ours := strings.CutPrefix(imported, module+"/")
			if !ours || target == file.folder() {
				continue
			}
			if why := mayNotImport(l, file, target); why != "" {
				broken = append(broken, fmt.Sprintf("%s imports %s: %s", file.path, target, why))
			}
		}
	}
	return broken
}

// mayNotImport returns the reason why the file may not import a folder of this repository; "" if it may.
func mayNotImport(l layout, file goFile, target string) string {
	family, _, internal := below("internal", target)
	family = oneOf(l.families, family)
	tooling := inside("test", target) || inside("hack", target)
	own, _, _ := below("internal", file.path)
	own = oneOf(l.families, own)
	binary, _, isMain := below("cmd", file.path)

	switch {
	case inside("cmd", target):
		return "a main package is not a library"
	case inside("api", file.path) && internal:
		return "api is public and stands alone"
	case inside("test", file.path) || inside("hack", file.path):
		return ""
	case tooling && (!file.test || inside("hack", target)):
		return "the product does not use what tests and builds it"
	case testSupport(target) && !file.test:
		return "only tests use it"
	case isMain && slices.Contains(l.guests[binary], target):
		return ""
	case isMain && family != "" && l.binaries[binary] != family:
		return "this family does not run in " + binary
	case isMain && internal && family == "" && !file.test && !wiring(target):
		return "a main uses process, config and its families, and leaves the rest to them"
	case inside("internal", file.path) && own == "" && family != "":
		return "shared packages know no family"
	case own != "" && family != "" && own != family:
		return "families never import each other"
	}
	return ""
}

func wiring(target string) bool { return target == "internal/process" || target == "internal/config" }

// oneOf returns the name if the list contains it, or "".
func oneOf(list []string, name string) string {
	if slices.Contains(list, name) {
		return name
	}
	return ""
}

// chartLibrariesStayInChart keeps Helm and the client of registries out of binaries that have no charts.
func chartLibrariesStayInChart(_ layout, t tree) []string {
	const chart = "internal/chart"
	libraries := []string{"helm.sh/helm", "oras.land/oras-go"}
	users := []string{chart, "internal/extension", "internal/garden"}
	var broken []string
	for _, file := range t.goFiles {
		for _, imported := range file.imports {
			target, _ := strings.CutPrefix(imported, module+"/")
			switch {
			case insideAny(libraries, imported) && !inside(chart, file.path):
				broken = append(broken, fmt.Sprintf("%s imports %s: only %s does", file.path, imported, chart))
			case target == chart && !file.test && !insideAny(users, file.path):
				broken = append(broken, fmt.Sprintf("%s imports %s: its binary would contain Helm", file.path, chart))
			}
		}
	}
	return broken
}

// apiTypesStayLean limits the dependencies of the packages in api/, which other programs import.
func apiTypesStayLean(_ layout, t tree) []string {
	types := []string{"k8s.io/apimachinery", "k8s.io/api", "k8s.io/utils/clock"}
	helpers := append(slices.Clone(types),
		"k8s.io/utils/ptr",
		"sigs.k8s.io/controller-runtime/pkg/client",
		"sigs.k8s.io/controller-runtime/pkg/controller/controllerutil",
		"sigs.k8s.io/yaml",
		"github.com/andybalholm/brotli",
	)
	var broken []string
	for _, file := range t.goFiles {
		if !inside("api", file.path) || file.test {
			continue
		}
		allowed, ours := types, "api/*/v* and the standard library"
		if isHelper(file.folder()) {
			allowed, ours = helpers, "api/, the standard library"
		}
		for _, imported := range file.imports {
			target, own := strings.CutPrefix(imported, module+"/")
			fine := !own && (standard(imported) || insideAny(allowed, imported)) ||
				own && (isHelper(file.folder()) || !isHelper(target))
			if !fine {
				broken = append(broken, fmt.Sprintf("%s imports %s: allowed are %s, %s", file.path, imported, ours, strings.Join(allowed, ", ")))
			}
		}
	}
	return broken
}

// isHelper reports whether a package in api/ contains functions and not API types.
func isHelper(folder string) bool { return !strings.HasPrefix(path.Base(folder), "v") }

func standard(imported string) bool {
	first, _, _ := strings.Cut(imported, "/")
	return !strings.Contains(first, ".")
}

// pureFilesDoNoIO checks that files of pure folders do not import context, which would be a sign of waiting or I/O.
func pureFilesDoNoIO(l layout, t tree) []string {
	names := []string{"desired.go", "checks.go", "plan.go", "conditions.go", "decide.go"}
	var broken []string
	for _, file := range t.goFiles {
		_, rest, _ := below("internal", file.folder())
		pure := insideAny(l.pure, rest) || slices.ContainsFunc(names, func(name string) bool {
			return path.Base(file.path) == name || strings.HasSuffix(file.path, "_"+name)
		})
		if pure && !file.test && slices.Contains(file.imports, "context") {
			broken = append(broken, file.path+" is a pure file and imports context")
		}
	}
	return broken
}

// noLiteralSetsRequeue checks that Requeue is not set: it is deprecated, and our linters do not find it. Use RequeueAfter, an error or a
// watch.
func noLiteralSetsRequeue(_ layout, t tree) []string {
	var broken []string
	for _, file := range t.goFiles {
		ast.Inspect(file.syntax, func(node ast.Node) bool {
			if setsRequeue(node) {
				broken = append(broken, fmt.Sprintf("%s:%d sets Requeue", file.path, t.positions.Position(node.Pos()).Line))
			}
			return true
		})
	}
	return broken
}

func setsRequeue(node ast.Node) bool {
	switch n := node.(type) {
	case *ast.KeyValueExpr:
		key, ok := n.Key.(*ast.Ident)
		return ok && key.Name == "Requeue"
	case *ast.AssignStmt:
		return slices.ContainsFunc(n.Lhs, func(left ast.Expr) bool {
			selector, ok := left.(*ast.SelectorExpr)
			return ok && selector.Sel.Name == "Requeue"
		})
	}
	return false
}

func generatedFilesSaySo(_ layout, t tree) []string {
	var broken []string
	for _, file := range t.generated {
		marked := file.marked || strings.HasPrefix(file.firstLine, "# Code generated ") && strings.HasSuffix(file.firstLine, " DO NOT EDIT.")
		if !marked {
			broken = append(broken, file.path+" does not begin with: Code generated … DO NOT EDIT.")
		}
	}
	return broken
}

// markersAreRead finds RBAC markers that the generator of the roles ignores: no role would contain their rights.
func markersAreRead(l layout, t tree) []string {
	var broken []string
	for _, file := range t.goFiles {
		family, _, _ := below("internal", file.path)
		isRead := !strings.HasSuffix(file.path, "_test.go") && slices.Contains(l.families, family)
		if !isRead && hasMarker(file.syntax) {
			broken = append(broken, file.path+" has an RBAC marker that hack/generate.sh does not read: no role contains the right")
		}
	}
	return broken
}

func hasMarker(file *ast.File) bool {
	return slices.ContainsFunc(file.Comments, func(group *ast.CommentGroup) bool {
		return slices.ContainsFunc(group.List, func(comment *ast.Comment) bool {
			return strings.HasPrefix(comment.Text, "// +kubebuilder:rbac:")
		})
	})
}

func mainsAreShort(_ layout, t tree) []string {
	var broken []string
	for _, file := range t.goFiles {
		_, _, isMain := below("cmd", file.path)
		if isMain && path.Base(file.path) == "main.go" && file.lines > 60 {
			broken = append(broken, fmt.Sprintf("%s has %d lines: a main has at most 60", file.path, file.lines))
		}
	}
	return broken
}

func goFolders(t tree) []string {
	var folders []string
	for _, file := range t.goFiles {
		folders = append(folders, file.folder())
	}
	slices.Sort(folders)
	return slices.Compact(folders)
}
