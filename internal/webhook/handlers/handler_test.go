package handlers

import (
	"os"
	"path/filepath"
	"reflect"
	"regexp"
	"slices"
	"strings"
	"testing"

	. "github.com/onsi/gomega"

	"github.com/espalier-dev/espalier/internal/config"
	"github.com/espalier-dev/espalier/test/local"
)

func TestNamesAndPathsAreUnique(t *testing.T) {
	g := NewWithT(t)
	seen := map[string]bool{}
	for _, each := range All() {
		for _, value := range []string{each.Name, each.Path} {
			g.Expect(seen).NotTo(HaveKey(value))
			seen[value] = true
		}
	}
}

func TestHandlersThatChangeObjectsComeFirst(t *testing.T) {
	g := NewWithT(t)
	all := All()
	first := slices.IndexFunc(all, func(h Handler) bool { return !h.Mutating })
	for _, each := range all[first:] {
		g.Expect(each.Mutating).To(BeFalse(), each.Name)
		g.Expect(each.Policy).To(BeNil(), each.Name)
	}
}

// TestEverySectionHasAHandler compares the table with the configuration.
func TestEverySectionHasAHandler(t *testing.T) {
	g := NewWithT(t)
	var want []string
	for field := range reflect.TypeFor[config.Webhooks]().Fields() {
		name, _, _ := strings.Cut(field.Tag.Get("json"), ",")
		want = append(want, name)
	}
	g.Expect(sections()).To(ConsistOf(want))
}

func TestSwitchEnablesTheHandlersOfItsSection(t *testing.T) {
	for _, each := range All() {
		t.Run(each.Name, func(t *testing.T) {
			g := NewWithT(t)
			cfg := config.Webhooks{}
			g.Expect(Enabled(cfg)).To(BeEmpty())
			*each.Switch(&cfg) = true
			found := Enabled(cfg)
			g.Expect(found).NotTo(BeEmpty())
			for _, enabled := range found {
				g.Expect(enabled.Section).To(Equal(each.Section))
			}
			section := reflect.ValueOf(cfg).FieldByNameFunc(func(name string) bool {
				field, _ := reflect.TypeFor[config.Webhooks]().FieldByName(name)
				return strings.HasPrefix(field.Tag.Get("json"), each.Section+",")
			})
			g.Expect(section.FieldByName("Enabled").Bool()).To(BeTrue(), "another section is switched on")
		})
	}
}

func TestEveryHandlerIsRegisteredSomewhere(t *testing.T) {
	for _, each := range All() {
		declared := 0
		for _, in := range []string{config.FlavorStandalone, config.FlavorGardenerRuntime, config.FlavorGardenerShoot} {
			declared += len(each.Declared(Cluster{Flavor: in}))
		}
		NewWithT(t).Expect(declared).To(BeNumerically(">", 0), each.Name)
	}
}

// TestDocumentationHasEveryHandler compares the table of docs/webhook-server.md with the sections, and the one of
// docs/admission-policies.md with the handlers and with whether they have a policy.
func TestDocumentationHasEveryHandler(t *testing.T) {
	g := NewWithT(t)
	g.Expect(firstColumn(t, "webhook-server.md", "## Handlers")).To(HaveLen(len(sections())))
	for section := range firstColumn(t, "webhook-server.md", "## Handlers") {
		g.Expect(sections()).To(ContainElement(section))
	}
	rows := firstColumn(t, "admission-policies.md", "## Which handlers")
	for _, each := range All() {
		name := each.Name
		if strings.HasPrefix(name, "validation.extensions.") {
			name = "validation.extensions.*"
		}
		g.Expect(rows).To(HaveKey(name))
		if each.Mutating {
			g.Expect(strings.HasPrefix(rows[name], "yes")).To(Equal(each.Policy != nil), name)
		}
	}
}

func sections() []string {
	var all []string
	for _, each := range All() {
		if !slices.Contains(all, each.Section) {
			all = append(all, each.Section)
		}
	}
	return all
}

// firstColumn returns the words in code in the first column of the table below a heading of a page, with the text of the second
// column.
func firstColumn(t *testing.T, page, heading string) map[string]string {
	t.Helper()
	g := NewWithT(t)
	root, err := local.RepositoryRoot()
	g.Expect(err).NotTo(HaveOccurred())
	content, err := os.ReadFile(filepath.Join(root, "docs", page))
	g.Expect(err).NotTo(HaveOccurred())
	_, below, found := strings.Cut(string(content), "\n"+heading+"\n")
	g.Expect(found).To(BeTrue(), heading)
	below, _, _ = strings.Cut(below, "\n## ")
	words := map[string]string{}
	for _, row := range regexp.MustCompile(`(?m)^\| (.*?) \| (.*?) \|`).FindAllStringSubmatch(below, -1) {
		for _, word := range regexp.MustCompile("`([^`]+)`").FindAllStringSubmatch(row[1], -1) {
			words[word[1]] = row[2]
		}
	}
	return words
}
