package documented_test

import (
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	. "github.com/onsi/gomega"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"sigs.k8s.io/yaml"
)

func readDocument(t *testing.T, name string) string {
	t.Helper()
	content, err := os.ReadFile(filepath.Join(folder, name))
	NewWithT(t).Expect(err).NotTo(HaveOccurred())
	return string(content)
}

// The pages remove exactly the objects that they create in the clusters.
func TestRemovingRemovesEveryBinding(t *testing.T) {
	g := NewWithT(t)
	_, removing, found := strings.Cut(readDocument(t, "running.md"), "\n## Removing it\n")
	g.Expect(found).To(BeTrue())
	removed := strings.Fields(regexp.MustCompile(`(?m)^kubectl delete clusterrolebinding (.*\\\n)*.*$`).FindString(removing))
	created := 0
	for _, page := range []string{"running.md", "security.md", "garbage-collector.md"} {
		for _, each := range regexp.MustCompile(`kubectl create clusterrolebinding (\S+)`).FindAllStringSubmatch(readDocument(t, page), -1) {
			g.Expect(removed).To(ContainElement(each[1]), page)
			created++
		}
	}
	g.Expect(created).To(BeNumerically(">=", 5))
}

// The table of annotations must say that objects have a health, and that an annotation excludes an object from health checks.
func TestTheTableOfAnnotationsKnowsOfHealth(t *testing.T) {
	g := NewWithT(t)
	row := regexp.MustCompile("(?m)^\\| `skip-health-check` .*$").FindString(readDocument(t, "managedresource.md"))
	g.Expect(row).To(And(ContainSubstring("`ResourcesHealthy`"), ContainSubstring("`ResourcesProgressing`")))
}

// pages returns all pages with commands, relative to the folder of the documentation.
func pages(t *testing.T) []string {
	t.Helper()
	found := []string{"../README.md", "../CONTRIBUTING.md"}
	for _, pattern := range []string{"*.md", "reference/*.md"} {
		matches, err := filepath.Glob(filepath.Join(folder, pattern))
		NewWithT(t).Expect(err).NotTo(HaveOccurred())
		for _, each := range matches {
			name, err := filepath.Rel(folder, each)
			NewWithT(t).Expect(err).NotTo(HaveOccurred())
			found = append(found, name)
		}
	}
	return found
}

var (
	shellBlock = regexp.MustCompile("(?s)\n *```sh\n(.*?)\n *```")
	quotedMake = regexp.MustCompile("`make ([a-z][a-z0-9-]*)")
	makeInLine = regexp.MustCompile(`(?m)^ *make ([a-z][a-z0-9-]*)`)
	ownPath    = regexp.MustCompile(`(?m)(?:^|[\s=$(])((?:deploy|examples|hack|test|docs|cmd)/[\w./-]+\w)`)
)

// The targets and files in the commands of a page exist.
func TestCommandsNameTargetsAndFilesThatExist(t *testing.T) {
	makefile := readDocument(t, filepath.Join("..", "Makefile"))
	for _, page := range pages(t) {
		t.Run(page, func(t *testing.T) {
			g := NewWithT(t)
			text := readDocument(t, page)
			targets := quotedMake.FindAllStringSubmatch(text, -1)
			for _, block := range shellBlock.FindAllStringSubmatch(text, -1) {
				targets = append(targets, makeInLine.FindAllStringSubmatch(block[1], -1)...)
				for _, each := range ownPath.FindAllStringSubmatch(block[1], -1) {
					_, err := os.Stat(filepath.Join(folder, "..", each[1]))
					g.Expect(err).NotTo(HaveOccurred())
				}
			}
			for _, each := range targets {
				g.Expect(strings.Contains(makefile, "\n"+each[1]+":")).To(BeTrue(), "make %s", each[1])
			}
		})
	}
}

// The first example can be applied unchanged: a namespace comes before the objects in it.
func TestFirstExampleCreatesItsNamespaces(t *testing.T) {
	g := NewWithT(t)
	_, rest, found := strings.Cut(readDocument(t, "managedresource.md"), "```yaml\n")
	g.Expect(found).To(BeTrue())
	block, _, _ := strings.Cut(rest, "```")
	created := map[string]bool{}
	check := func(text string) (data []string) {
		for document := range strings.SplitSeq(text, "\n---\n") {
			object := &unstructured.Unstructured{}
			g.Expect(yaml.Unmarshal([]byte(document), &object.Object)).To(Succeed())
			if object.GetKind() == "Namespace" {
				created[object.GetName()] = true
				continue
			}
			g.Expect(created).To(HaveKey(object.GetNamespace()), object.GetKind())
			values, _, err := unstructured.NestedStringMap(object.Object, "stringData")
			g.Expect(err).NotTo(HaveOccurred())
			for _, each := range values {
				data = append(data, each)
			}
		}
		return data
	}
	manifests := check(block)
	g.Expect(manifests).To(HaveLen(1))
	check(manifests[0])
}

func TestTheTableOfFoldersNamesWhatIsInDeploy(t *testing.T) {
	g := NewWithT(t)
	row := regexp.MustCompile("(?m)^\\| `deploy/` .*$").FindString(readDocument(t, "architecture.md"))
	g.Expect(row).To(And(ContainSubstring("`target-restricted.yaml`"), ContainSubstring("`observability/`")))
}
