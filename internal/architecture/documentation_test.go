package architecture_test

import (
	"io/fs"
	"os"
	"path"
	"regexp"
	"slices"
	"strings"
	"testing"
	"testing/fstest"

	. "github.com/onsi/gomega"
)

func TestContributingNamesWhatExists(t *testing.T) {
	g := NewWithT(t)
	root := os.DirFS("../..")
	page, err := fs.ReadFile(root, "CONTRIBUTING.md")
	g.Expect(err).NotTo(HaveOccurred())
	g.Expect(absentPlaces(root, string(page))).To(BeEmpty())
}

func TestAbsentPlacesAreFound(t *testing.T) {
	root := fstest.MapFS{
		"internal/fruit/apple.go":   {Data: []byte("package fruit\n\nfunc keepReason() {}\n")},
		"internal/fruit/list.yaml":  {},
		"internal/tree/oak.go":      {},
		"docs/fruit.md":             {},
		".cache/internal/hidden.go": {},
	}
	for name, tc := range map[string]struct {
		page string
		want []string
	}{
		"places that exist": {
			page: "`fruit.keepReason` in `internal/fruit/apple.go`,\nand `list.yaml` and `internal/fruit/`; see [fruit](docs/fruit.md#apples), " +
				"[web](https://x.example.com), [below](#below), `espalier.dev/plan`, `make Apples`.\n\nAny `oak.go`, `Oak`.",
		},
		"a folder that is gone":                  {page: "`internal/pear`", want: []string{"internal/pear"}},
		"a folder that is gone, in a table":      {page: "| a | `internal/pear` |", want: []string{"internal/pear"}},
		"a folder in a block of code":            {page: "a\n```sh\n`internal/pear`\n```\n"},
		"a file of another folder":               {page: "`oak.go` in `internal/fruit`", want: []string{"oak.go"}},
		"a file of the folder of another item":   {page: "- `internal/tree`\n- `internal/fruit`: `oak.go`", want: []string{"oak.go"}},
		"a file that does not exist":             {page: "`hidden.go`", want: []string{"hidden.go"}},
		"a function that is gone":                {page: "`keepReasons` in `internal/fruit`", want: []string{"keepReasons"}},
		"a page that is gone":                    {page: "[tree](docs/tree.md)", want: []string{"docs/tree.md"}},
		"a pattern that files match":             {page: "`internal/<family>/apple.go`, `o*.go` in `internal/tree`, `docs/….md`"},
		"a pattern that no file matches":         {page: "`internal/fruit/<name>_test.go`", want: []string{"internal/fruit/<name>_test.go"}},
		"a function of a folder with a pattern":  {page: "`keepReason` in `internal/<family>`"},
		"a file in a folder of a top-level file": {page: "`internal/fruit/list.yaml`, and `apple.go` beside it"},
	} {
		t.Run(name, func(t *testing.T) {
			NewWithT(t).Expect(absentPlaces(root, tc.page)).To(BeComparableTo(tc.want))
		})
	}
}

var (
	codeBlock  = regexp.MustCompile("(?s)```.*?```")
	itemStart  = regexp.MustCompile(`\n(?:\n|- |\|)`)
	codeSpan   = regexp.MustCompile("`([^`]+)`")
	link       = regexp.MustCompile(`\]\(([^)#:]+)[)#]`)
	fileName   = regexp.MustCompile(`^\S+\.(?:go|yaml|sh|md)$`)
	identifier = regexp.MustCompile(`^(?:\w+\.)?([a-z]+[A-Z]\w*|[A-Z][a-z]\w*)$`)
	variable   = regexp.MustCompile(`<\w+>|…`)
)

// absentPlaces returns the folders, files, functions and types that a page names and that do not exist. A path begins with a folder of the
// root. A file without a folder, a function or a type must be in one of the folders that the same paragraph or list item names.
func absentPlaces(root fs.FS, page string) ([]string, error) {
	r, err := listFiles(root)
	if err != nil {
		return nil, err
	}
	var absent []string
	for _, item := range itemStart.Split(codeBlock.ReplaceAllString("\n"+page, ""), -1) {
		var folders, rest []string
		for _, span := range slices.Concat(codeSpan.FindAllStringSubmatch(item, -1), link.FindAllStringSubmatch(item, -1)) {
			name := strings.TrimSuffix(span[1], "/")
			if top, _, nested := strings.Cut(name, "/"); !nested || !r.isFolder[top] {
				rest = append(rest, name)
				continue
			}
			found := r.folders(name)
			if len(found) == 0 {
				absent = append(absent, name)
			}
			folders = append(folders, found...)
		}
		for _, name := range rest {
			here := r.below(folders)
			word := identifier.FindStringSubmatch(name)
			switch {
			case fileName.MatchString(name):
				if !slices.ContainsFunc(here, func(file string) bool { return matches(name, path.Base(file)) }) {
					absent = append(absent, name)
				}
			case word != nil && len(folders) > 0:
				named, err := r.names(here, word[1])
				if err != nil {
					return nil, err
				}
				if !named {
					absent = append(absent, name)
				}
			}
		}
	}
	return absent, nil
}

// repository lists the folders and files of the repository, except for hidden ones.
type repository struct {
	root     fs.FS
	all      []string
	isFolder map[string]bool
}

func listFiles(root fs.FS) (repository, error) {
	r := repository{root: root, isFolder: map[string]bool{}}
	err := fs.WalkDir(root, ".", func(name string, entry fs.DirEntry, err error) error {
		switch {
		case err != nil:
			return err
		case name == ".":
			return nil
		case entry.IsDir() && (strings.HasPrefix(path.Base(name), ".") || name == "bin"):
			return fs.SkipDir
		}
		r.all, r.isFolder[name] = append(r.all, name), entry.IsDir()
		return nil
	})
	return r, err
}

// folders returns the folders that match a pattern, and the folders that contain files that match it.
func (r repository) folders(pattern string) []string {
	var found []string
	for _, name := range r.all {
		switch {
		case !matches(pattern, name):
		case r.isFolder[name]:
			found = append(found, name)
		default:
			found = append(found, path.Dir(name))
		}
	}
	return found
}

// below returns the files below the folders; all files if the list is empty.
func (r repository) below(folders []string) []string {
	return slices.DeleteFunc(slices.Clone(r.all), func(name string) bool {
		return r.isFolder[name] || len(folders) > 0 && !insideAny(folders, name)
	})
}

// names reports whether one of the Go files contains a word.
func (r repository) names(files []string, word string) (bool, error) {
	pattern := regexp.MustCompile(`\b` + word + `\b`)
	for _, file := range files {
		if path.Ext(file) != ".go" {
			continue
		}
		content, err := fs.ReadFile(r.root, file)
		if err != nil {
			return false, err
		}
		if pattern.Match(content) {
			return true, nil
		}
	}
	return false, nil
}

// matches reports whether a name matches a pattern, in which * and <variable> stand for any text.
func matches(pattern, name string) bool {
	matched, err := path.Match(variable.ReplaceAllString(pattern, "*"), name)
	return err == nil && matched
}
