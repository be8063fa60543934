package webhook_test

import (
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	. "github.com/onsi/gomega"

	"github.com/espalier-dev/espalier/internal/project/webhook"
	"github.com/espalier-dev/espalier/test/local"
)

// TestDocumentationHasEveryWebhook compares the table of docs/project-controller.md with the handlers.
func TestDocumentationHasEveryWebhook(t *testing.T) {
	g := NewWithT(t)
	root, err := local.RepositoryRoot()
	g.Expect(err).NotTo(HaveOccurred())
	page, err := os.ReadFile(filepath.Join(root, "docs", "project-controller.md"))
	g.Expect(err).NotTo(HaveOccurred())
	_, section, found := strings.Cut(string(page), "\n## Webhooks\n")
	g.Expect(found).To(BeTrue())
	table, _, _ := strings.Cut(strings.TrimSpace(section), "\n\n")
	var documented, declared []string
	for _, row := range regexp.MustCompile("(?m)^\\| (`.*?) \\|").FindAllStringSubmatch(table, -1) {
		for name := range strings.SplitSeq(row[1], ", ") {
			documented = append(documented, strings.Trim(name, "`"))
		}
	}
	for _, each := range webhook.Declared() {
		declared = append(declared, strings.TrimSuffix(each.Name, ".project-controller.espalier.dev"))
	}
	g.Expect(documented).To(ConsistOf(declared))
}

func TestHandlersAreNamedAndServedOnce(t *testing.T) {
	g := NewWithT(t)
	seen := map[string]bool{}
	for _, each := range webhook.Handlers() {
		for _, value := range []string{each.Name, each.Path} {
			g.Expect(seen).NotTo(HaveKey(value))
			seen[value] = true
		}
		g.Expect(each.Review(webhook.Settings{})).NotTo(BeNil())
	}
}
