package documented_test

import (
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	. "github.com/onsi/gomega"
)

func readDocument(t *testing.T, name string) string {
	t.Helper()
	content, err := os.ReadFile(filepath.Join(folder, name))
	NewWithT(t).Expect(err).NotTo(HaveOccurred())
	return string(content)
}

// What the pages tell to create in the clusters is what they tell to remove.
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

// Health is judged, and the annotation that leaves an object out of it has an effect.
func TestTheTableOfAnnotationsKnowsOfHealth(t *testing.T) {
	g := NewWithT(t)
	row := regexp.MustCompile("(?m)^\\| `skip-health-check` .*$").FindString(readDocument(t, "managedresource.md"))
	g.Expect(row).To(And(ContainSubstring("`ResourcesHealthy`"), ContainSubstring("`ResourcesProgressing`")))
}

func TestTheReadmeNamesWhatIsInDeploy(t *testing.T) {
	g := NewWithT(t)
	row := regexp.MustCompile("(?m)^\\| `deploy/` .*$").FindString(readDocument(t, filepath.Join("..", "README.md")))
	g.Expect(row).To(And(ContainSubstring("`target-restricted.yaml`"), ContainSubstring("`observability/`")))
}
