package documented_test

import (
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	. "github.com/onsi/gomega"
)

// folder is the folder of the page.
const folder = "../../../docs"

// page is docs/writing-managedresources.md.
type page struct {
	text     string
	sections []section
}

// section is the text below one heading, up to the next one.
type section struct {
	heading, text string
	examples      []pageExample
}

// pageExample is a block of YAML with the sentences below it.
type pageExample struct {
	name, yaml string
	sentences  []string
}

var (
	headings = regexp.MustCompile(`(?m)^##+ (.*)$`)
	examples = regexp.MustCompile("(?m)^<!-- example: (\\S+) -->\n```yaml\n((?:.*\n)*?)```\n\n((?:[-] .*\n(?:  .*\n)*)*)")
	commands = regexp.MustCompile("(?m)^<!-- commands: (\\S+) -->\n```sh\n((?:.*\n)*?)```\n")
	item     = regexp.MustCompile(`(?m)^- (.*\n(?: {2}.*\n)*)`)
)

func readPage(t *testing.T) *page {
	t.Helper()
	content, err := os.ReadFile(filepath.Join(folder, "writing-managedresources.md"))
	NewWithT(t).Expect(err).NotTo(HaveOccurred())
	p := &page{text: string(content)}
	outside := withoutBlocks(p.text)
	starts := headings.FindAllStringSubmatchIndex(outside, -1)
	for i, start := range starts {
		end := len(p.text)
		if i+1 < len(starts) {
			end = starts[i+1][0]
		}
		text := p.text[start[1]:end]
		p.sections = append(p.sections, section{heading: p.text[start[2]:start[3]], text: text, examples: examplesOf(text)})
	}
	return p
}

// withoutBlocks blanks fenced blocks, because a comment in a block is not a heading.
func withoutBlocks(text string) string {
	return regexp.MustCompile("(?ms)^```.*?\n```$").ReplaceAllStringFunc(text,
		func(block string) string { return strings.Repeat(" ", len(block)) })
}

func examplesOf(text string) []pageExample {
	var found []pageExample
	for _, match := range examples.FindAllStringSubmatch(text, -1) {
		example := pageExample{name: match[1], yaml: match[2]}
		for _, each := range item.FindAllStringSubmatch(match[3], -1) {
			example.sentences = append(example.sentences, plain(each[1]))
		}
		found = append(found, example)
	}
	return found
}

// plain returns a text without line breaks and code marks.
func plain(text string) string {
	return strings.Join(strings.Fields(strings.ReplaceAll(text, "`", "")), " ")
}

func (p *page) examples() map[string]pageExample {
	found := map[string]pageExample{}
	for _, each := range p.sections {
		for _, example := range each.examples {
			found[example.name] = example
		}
	}
	return found
}

// commands returns the lines of a block of shell commands.
func (p *page) commands(t *testing.T, name string) []string {
	t.Helper()
	for _, match := range commands.FindAllStringSubmatch(p.text, -1) {
		if match[1] == name {
			return strings.Split(strings.TrimSpace(match[2]), "\n")
		}
	}
	t.Fatalf("the page has no commands %q", name)
	return nil
}
