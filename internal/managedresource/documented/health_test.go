package documented_test

import (
	"go/ast"
	"go/parser"
	"go/token"
	"maps"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"

	. "github.com/onsi/gomega"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/espalier-dev/espalier/internal/health"
)

// judgedKinds returns the keys of the table of rules in internal/health, as "Deployment.apps".
func judgedKinds(t *testing.T) []string {
	t.Helper()
	g := NewWithT(t)
	file, err := parser.ParseFile(token.NewFileSet(), "../../health/kinds.go", nil, 0)
	g.Expect(err).NotTo(HaveOccurred())
	table, ok := file.Scope.Lookup("rules").Decl.(*ast.ValueSpec)
	g.Expect(ok).To(BeTrue())
	entries, ok := table.Values[0].(*ast.CompositeLit)
	g.Expect(ok).To(BeTrue())
	var found []string
	for _, each := range entries.Elts {
		entry, isEntry := each.(*ast.KeyValueExpr)
		g.Expect(isEntry).To(BeTrue())
		key, isKind := entry.Key.(*ast.CompositeLit)
		g.Expect(isKind).To(BeTrue())
		kind := schema.GroupKind{Group: part(g, key, "Group"), Kind: part(g, key, "Kind")}
		g.Expect(health.HasRule(kind)).To(BeTrue(), "%s", kind)
		found = append(found, kind.String())
	}
	return found
}

// part returns a field of a literal, "" if it is not set.
func part(g *WithT, key *ast.CompositeLit, name string) string {
	for _, each := range key.Elts {
		field, isField := each.(*ast.KeyValueExpr)
		g.Expect(isField).To(BeTrue())
		if ident, _ := field.Key.(*ast.Ident); ident == nil || ident.Name != name {
			continue
		}
		text, isText := field.Value.(*ast.BasicLit)
		g.Expect(isText).To(BeTrue())
		value, err := strconv.Unquote(text.Value)
		g.Expect(err).NotTo(HaveOccurred())
		return value
	}
	return ""
}

// Each row of the page's table starts with the kinds that it describes.
func TestTheHealthRulesNameEveryKind(t *testing.T) {
	p := readPage(t)
	at := slices.IndexFunc(p.sections, func(s section) bool { return s.heading == "Health rules" })
	g := NewWithT(t)
	g.Expect(at).To(BeNumerically(">=", 0))
	kind := regexp.MustCompile("`([A-Z][A-Za-z.0-9]+)`")
	found := map[string]bool{}
	for line := range strings.Lines(p.sections[at].text) {
		cells := strings.Split(line, "|")
		if len(cells) < 3 || strings.HasPrefix(strings.TrimSpace(cells[1]), "any other") {
			continue
		}
		for _, each := range kind.FindAllStringSubmatch(cells[1], -1) {
			g.Expect(found).NotTo(HaveKey(each[1]), "listed twice")
			found[each[1]] = true
		}
	}
	g.Expect(slices.Sorted(maps.Keys(found))).To(Equal(slices.Sorted(slices.Values(judgedKinds(t)))))
}
