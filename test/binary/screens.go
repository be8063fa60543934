package binary

import (
	"os"
	"regexp"
	"slices"
	"strings"
	"testing"

	. "github.com/onsi/gomega"

	"github.com/espalier-dev/espalier/test/local"
)

// screen is a block of the documentation that a test writes.
var screen = regexp.MustCompile("(?s)(<!-- begin screen: ([a-z-]+) -->\n```\n)(.*?)(```\n<!-- end screen -->)")

// CheckScreens compares screens with the blocks of a page in docs, or writes them if update is set. The order of lines is not compared,
// since it can depend on seconds.
func CheckScreens(t *testing.T, page string, update bool, screens map[string]string) {
	t.Helper()
	g := NewWithT(t)
	folder, err := local.RepositoryRoot()
	g.Expect(err).NotTo(HaveOccurred())
	name := folder + "/docs/" + page
	content, err := os.ReadFile(name)
	g.Expect(err).NotTo(HaveOccurred())
	documented := map[string][]string{}
	written := screen.ReplaceAllStringFunc(string(content), func(block string) string {
		parts := screen.FindStringSubmatch(block)
		documented[parts[2]] = sortedLines(parts[3])
		return parts[1] + screens[parts[2]] + parts[4]
	})
	if update {
		g.Expect(os.WriteFile(name, []byte(written), 0o600)).To(Succeed())
		return
	}
	want := map[string][]string{}
	for each, text := range screens {
		want[each] = sortedLines(text)
	}
	g.Expect(documented).To(BeComparableTo(want), "run make screens")
}

func sortedLines(text string) []string {
	lines := strings.Split(text, "\n")
	slices.Sort(lines)
	return lines
}
