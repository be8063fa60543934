package components_test

import (
	"flag"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	. "github.com/onsi/gomega"

	"github.com/espalier-dev/espalier/internal/garden/component"
	"github.com/espalier-dev/espalier/internal/garden/components"
)

var update = flag.Bool("update", false, "write tables and pictures into docs/, and markers for rights")

func TestTheDocumentationShowsTheRows(t *testing.T) {
	expectFlows(t) // a picture cannot show a cycle
	expectParts(t, "garden-operator.md", map[string]string{
		"tasks of a reconciliation": table(components.Reconciliation()), "picture of a reconciliation": picture(components.Reconciliation()),
		"picture of a deletion": picture(components.Deletion(false)), "components": list(components.All()),
	})
	expectParts(t, "reference/credentials.md", map[string]string{"credentials": registry(t)})
}

// expectParts compares the generated parts of a page with their content, or writes them.
func expectParts(t *testing.T, file string, parts map[string]string) {
	t.Helper()
	g, name := NewWithT(t), filepath.Join("..", "..", "..", "docs", file)
	page, err := os.ReadFile(name)
	g.Expect(err).NotTo(HaveOccurred())
	want := string(page)
	for part, content := range parts {
		before, rest, begins := strings.Cut(want, "<!-- The "+part+": make generate -->\n")
		_, after, ends := strings.Cut(rest, "<!-- end of the "+part+" -->")
		g.Expect(begins && ends).To(BeTrue(), part)
		want = before + "<!-- The " + part + ": make generate -->\n" + content + "<!-- end of the " + part + " -->" + after
	}
	if *update {
		g.Expect(os.WriteFile(name, []byte(want), 0o600)).To(Succeed())
		return
	}
	g.Expect(string(page)).To(Equal(want), "run make generate")
}

// table returns the tasks with the rows and milestones after which they start.
func table(nodes []components.Node) string {
	var out strings.Builder
	out.WriteString("| task | component | after | does |\n|---|---|---|---|\n")
	for _, node := range nodes {
		after := strings.Join(node.After, ", ")
		if node.Step == components.Await {
			after = component.Deployed(node.Component.Name)
		}
		fmt.Fprintf(&out, "| `%s` | %s | %s | %s |\n", node.Name, node.Component.Name, after, node.Does)
	}
	return out.String()
}

// list returns the components with their ManagedResources and conditions.
func list(rows []component.Component) string {
	var out strings.Builder
	out.WriteString("| component | plane | ManagedResources | condition |\n|---|---|---|---|\n")
	for _, row := range rows {
		var sets []string
		for _, set := range row.Sets {
			sets = append(sets, "`"+set.Name+"`")
		}
		if row.Condition != "" && row.Deploy.Name != "" {
			fmt.Fprintf(&out, "| %s | %s | %s | `%s` |\n", row.Name, row.Plane, strings.Join(sets, ", "), row.Condition)
		}
	}
	return out.String()
}

// picture draws the tasks as a Mermaid graph, without the arrows that other arrows imply. A task has the name of its row.
func picture(nodes []components.Node) string {
	var out strings.Builder
	out.WriteString("```mermaid\ngraph LR\n")
	label := map[string]string{}
	for _, node := range nodes {
		label[node.Name] = node.Component.Name
		if node.Step == components.Await {
			label[node.Name] += "-ready"
		}
	}
	needs := map[string][]string{}
	for _, node := range nodes {
		needs[node.Name] = node.DependsOn
		if len(node.DependsOn) == 0 {
			fmt.Fprintf(&out, "  %s\n", label[node.Name])
		}
	}
	for _, node := range nodes {
		for _, need := range node.DependsOn {
			if !slices.ContainsFunc(node.DependsOn, func(other string) bool { return other != need && reaches(needs, other, need) }) {
				fmt.Fprintf(&out, "  %s --> %s\n", label[need], label[node.Name])
			}
		}
	}
	return out.String() + "```\n"
}

// reaches reports whether a task needs another one, directly or through others.
func reaches(needs map[string][]string, task, other string) bool {
	return slices.ContainsFunc(needs[task], func(need string) bool { return need == other || reaches(needs, need, other) })
}
