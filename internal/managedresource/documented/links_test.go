package documented_test

import (
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	. "github.com/onsi/gomega"
)

var (
	links       = regexp.MustCompile(`\]\(([^)\s]+)\)`)
	punctuation = regexp.MustCompile(`[^\p{L}\p{N} _-]`)
)

// anchors returns the anchors of a page's headings.
func anchors(text string) map[string]bool {
	found := map[string]bool{"": true}
	for _, each := range headings.FindAllStringSubmatch(withoutBlocks(text), -1) {
		found[strings.ReplaceAll(punctuation.ReplaceAllString(strings.ToLower(each[1]), ""), " ", "-")] = true
	}
	return found
}

func TestEveryLinkLeadsSomewhere(t *testing.T) {
	g := NewWithT(t)
	p := readPage(t)
	for _, each := range links.FindAllStringSubmatch(p.text, -1) {
		file, anchor, _ := strings.Cut(each[1], "#")
		text := p.text
		if file != "" {
			path := filepath.Join(folder, file)
			info, err := os.Stat(path)
			g.Expect(err).NotTo(HaveOccurred())
			if info.IsDir() {
				continue
			}
			content, err := os.ReadFile(path)
			g.Expect(err).NotTo(HaveOccurred())
			text = string(content)
		}
		g.Expect(anchors(text)).To(HaveKey(anchor), each[1])
	}
}
