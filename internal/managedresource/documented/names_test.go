package documented_test

import (
	"go/ast"
	"go/parser"
	"go/token"
	"reflect"
	"slices"
	"strconv"
	"strings"
	"testing"

	. "github.com/onsi/gomega"

	resourcesv1alpha1 "github.com/espalier-dev/espalier/api/resources/v1alpha1"
)

// notOnThePage are the constants that the page may omit, with the reasons.
func notOnThePage() map[string]string {
	return map[string]string{
		"AllClasses":                      "it goes into the configuration of a controller only",
		"DescriptionText":                 "no client writes it",
		"MessageApplyProgressing":         "a message, not to be compared with",
		"MessageApplySucceeded":           "a message, not to be compared with",
		"MessageDeletionPending":          "a message, not to be compared with",
		"MessageManagedResourceIgnored":   "a message, not to be compared with",
		"MessageHealthChecksPending":      "a message, not to be compared with",
		"MessageProgressingChecksPending": "a message, not to be compared with",
		"MessageResourcesHealthy":         "a message, not to be compared with",
		"MessageResourcesRolledOut":       "a message, not to be compared with",
	}
}

// constant is a constant of names.go in api/resources/v1alpha1.
type constant struct {
	name, value string
	// settable is true if users or programs set it on ManagedResources or their objects.
	settable bool
}

// constants reads names.go, in which the first words of each group say who sets its constants.
func constants(t *testing.T) []constant {
	t.Helper()
	g := NewWithT(t)
	file, err := parser.ParseFile(token.NewFileSet(), "../../../api/resources/v1alpha1/names.go", nil, parser.ParseComments)
	g.Expect(err).NotTo(HaveOccurred())
	var found []constant
	for _, declaration := range file.Decls {
		group, ok := declaration.(*ast.GenDecl)
		if !ok || group.Tok != token.CONST {
			continue
		}
		settable := strings.HasPrefix(group.Doc.Text(), "Set by users") || strings.HasPrefix(group.Doc.Text(), "Set by programs")
		for _, each := range group.Specs {
			spec, ok := each.(*ast.ValueSpec)
			g.Expect(ok).To(BeTrue())
			found = append(found, constant{name: spec.Names[0].Name, value: literal(g, spec.Values[0]), settable: settable})
		}
	}
	return found
}

// literal returns the text of a constant; for an expression, its first part.
func literal(g *WithT, expression ast.Expr) string {
	if sum, ok := expression.(*ast.BinaryExpr); ok {
		return literal(g, sum.X)
	}
	basic, ok := expression.(*ast.BasicLit)
	g.Expect(ok).To(BeTrue())
	value, err := strconv.Unquote(basic.Value)
	g.Expect(err).NotTo(HaveOccurred())
	return value
}

func TestEveryNameIsOnThePage(t *testing.T) {
	g := NewWithT(t)
	p, exceptions := readPage(t), notOnThePage()
	all := constants(t)
	g.Expect(len(all)).To(BeNumerically(">", 50))
	for _, each := range all {
		_, excepted := exceptions[each.name]
		delete(exceptions, each.name)
		if !excepted {
			g.Expect(p.text).To(ContainSubstring(each.value), "%s is missing", each.name)
		}
	}
	g.Expect(exceptions).To(BeEmpty(), "there are no such constants")
}

// settings returns the keys and fields that users may set, in the form of headings and YAML.
func settings(t *testing.T) map[string]string {
	t.Helper()
	found := map[string]string{}
	for _, each := range constants(t) {
		if each.settable && strings.Contains(each.value, "/") {
			found["`"+each.value] = each.value
		}
	}
	spec := reflect.TypeFor[resourcesv1alpha1.ManagedResourceSpec]()
	for field := range spec.Fields() {
		name, _, _ := strings.Cut(field.Tag.Get("json"), ",")
		found["`spec."+name+"`"] = name + ":"
	}
	return found
}

// Each setting needs a section with a table that says on which object it is set, its values, its default, and the result of a mistake. An
// example of the page must set it.
func TestEverySettingHasASectionAndAnExample(t *testing.T) {
	p := readPage(t)
	twice := []string{"resources.gardener.cloud/ignore", "espalier.dev/plan"} // set on two kinds, and a prefix of another key
	for heading, key := range settings(t) {
		t.Run(key, func(t *testing.T) {
			g := NewWithT(t)
			described := 0
			for _, each := range p.sections {
				if strings.HasPrefix(each.heading, heading) {
					described++
					g.Expect(each.text).To(ContainSubstring("\n| on | values | default | if it is wrong |\n|---|---|---|---|\n| "))
				}
			}
			g.Expect(described).To(Equal(map[bool]int{true: 2, false: 1}[slices.Contains(twice, key)]), "sections")
			shown := 0
			for _, each := range p.examples() {
				shown += strings.Count(each.yaml, key)
			}
			g.Expect(shown).To(BeNumerically(">", 0), "no example sets it")
		})
	}
}
