package architecture_test

import (
	"io/fs"
	"os"
	"path"
	"regexp"
	"strings"
	"testing"
	"testing/fstest"

	. "github.com/onsi/gomega"
)

// The page has a table for each document that Espalier follows.
func TestEachSectionOfADocumentHasTestsThatExist(t *testing.T) {
	g := NewWithT(t)
	root := os.DirFS("../..")
	page, err := fs.ReadFile(root, "docs/reference/documents.md")
	g.Expect(err).NotTo(HaveOccurred())
	g.Expect(strings.Count(string(page), "| section | tests |")).To(Equal(5), "one table for each document")
	g.Expect(absentTests(root, string(page))).To(BeEmpty())
}

func TestAbsentTestsAreFound(t *testing.T) {
	root := fstest.MapFS{
		"internal/fruit/apple_test.go": {Data: []byte("package fruit\n\nfunc TestApple(t *testing.T) {}\n")},
		"internal/fruit/apple.go":      {Data: []byte("package fruit\n\nfunc TestTree(t *testing.T) {}\n")},
	}
	const head = "# A\n\n| section | tests |\n|---|---|\n"
	for row, want := range map[string][]string{
		"| Apples | `internal/fruit.TestApple`. As it is |\n":                     nil,
		"| Apples | `internal/fruit.TestApple`, `internal/fruit.TestApp` |\n":     {"internal/fruit.TestApp"},
		"| Apples | `internal/fruit.TestTree` |\n":                                {"internal/fruit.TestTree"},
		"| Pears | `internal/pear.TestPear` |\n":                                  {"internal/pear.TestPear"},
		"| Pears | none |\n":                                                      {"section Pears"},
		"| Apples | `internal/fruit.TestApple` |\n\n| part | a |\n| Pears |  |\n": nil,
	} {
		t.Run(row, func(t *testing.T) { NewWithT(t).Expect(absentTests(root, head+row)).To(Equal(want)) })
	}
}

// testName matches a test in a table: a folder and the name of a function.
var testName = regexp.MustCompile("`([a-z0-9/-]+)\\.(Test\\w+)`")

// absentTests returns the tests in the tables of a page that do not exist, and the sections without a test.
func absentTests(root fs.FS, page string) []string {
	var absent []string
	inTable := false
	for line := range strings.Lines(page) {
		isRow := strings.HasPrefix(line, "| ")
		if line == "| section | tests |\n" {
			inTable = true
			continue
		}
		if inTable = inTable && (isRow || strings.HasPrefix(line, "|-")); !inTable || !isRow {
			continue
		}
		cells := strings.SplitN(line, "|", 3)
		found := testName.FindAllStringSubmatch(cells[2], -1)
		if len(found) == 0 {
			absent = append(absent, "section "+strings.TrimSpace(cells[1]))
		}
		for _, each := range found {
			if !hasTest(root, each[1], each[2]) {
				absent = append(absent, each[1]+"."+each[2])
			}
		}
	}
	return absent
}

// hasTest reports whether a folder has a test.
func hasTest(root fs.FS, folder, name string) bool {
	files, err := fs.Glob(root, path.Join(folder, "*_test.go"))
	if err != nil {
		return false
	}
	for _, file := range files {
		content, err := fs.ReadFile(root, file)
		if err == nil && strings.Contains(string(content), "\nfunc "+name+"(t *testing.T)") {
			return true
		}
	}
	return false
}
