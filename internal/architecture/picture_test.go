package architecture_test

import (
	"flag"
	"fmt"
	"os"
	"slices"
	"strings"
	"testing"

	. "github.com/onsi/gomega"
)

var update = flag.Bool("update", false, "write the picture of dependencies into docs/architecture.md")

func TestThePictureShowsTheImports(t *testing.T) {
	g := NewWithT(t)
	files, err := readTree(os.DirFS("../.."))
	g.Expect(err).NotTo(HaveOccurred())
	const name, begin, end = "../../docs/architecture.md", "make generate -->\n", "<!-- end of the picture -->"
	page, err := os.ReadFile(name)
	g.Expect(err).NotTo(HaveOccurred())
	before, rest, found := strings.Cut(string(page), begin)
	g.Expect(found).To(BeTrue())
	_, after, found := strings.Cut(rest, end)
	g.Expect(found).To(BeTrue())
	want := before + begin + picture(project(), files) + end + after
	if *update {
		g.Expect(os.WriteFile(name, []byte(want), 0o600)).To(Succeed())
		return
	}
	g.Expect(string(page)).To(Equal(want), "run make generate")
}

// picture returns a Mermaid graph of the imports between the folders below internal/, and of the families in each binary.
func picture(l layout, t tree) string {
	arrows := map[string]bool{}
	for binary, family := range l.binaries {
		arrows[fmt.Sprintf("  cmd/%s --> %s", binary, family)] = true
	}
	omitted := []string{"architecture", "config", "process"}
	for _, file := range t.goFiles {
		from, ours := room(file.folder())
		if file.test || !ours || slices.Contains(omitted, from) {
			continue
		}
		for _, imported := range file.imports {
			to, ours := room(strings.TrimPrefix(imported, module+"/"))
			if ours && to != from && !slices.Contains(omitted, to) {
				arrows[fmt.Sprintf("  %s --> %s", from, to)] = true
			}
		}
	}
	lines := make([]string, 0, len(arrows))
	for arrow := range arrows {
		lines = append(lines, arrow+"\n")
	}
	slices.Sort(lines)
	return "```mermaid\ngraph LR\n" + strings.Join(lines, "") + "```\n"
}

// room returns the first folder in a path below internal/, and whether there is one.
func room(folder string) (string, bool) {
	below, ours := strings.CutPrefix(folder, "internal/")
	first, _, _ := strings.Cut(below, "/")
	return first, ours
}
