package webhook_test

import (
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	. "github.com/onsi/gomega"
	admissionregistrationv1 "k8s.io/api/admissionregistration/v1"

	"github.com/espalier-dev/espalier/internal/admission/review"
	"github.com/espalier-dev/espalier/internal/project/webhook"
	"github.com/espalier-dev/espalier/test/local"
)

// handler returns the handler of that name.
func handler(name string, settings webhook.Settings) review.Handler {
	for _, each := range webhook.Handlers() {
		if each.Name == name {
			return each.Review(settings)
		}
	}
	panic("no handler has the name " + name)
}

// TestDocumentationHasEveryWebhook compares the tables of webhooks in the documentation with the handlers.
func TestDocumentationHasEveryWebhook(t *testing.T) {
	g := NewWithT(t)
	var webhooks, handlers []string
	for _, each := range webhook.Declared() {
		webhooks = append(webhooks, strings.TrimSuffix(each.Name, ".project-controller.espalier.dev"))
	}
	for _, each := range webhook.Handlers() {
		handlers = append(handlers, each.Name)
	}
	g.Expect(firstColumn(t, "project-controller.md", "## Webhooks")).To(ConsistOf(webhooks))
	g.Expect(firstColumn(t, "reference/metrics.md", "## Webhooks of project-controller")).To(ConsistOf(handlers))
}

// firstColumn returns the words in code in the first column of the first table below a heading of a page.
func firstColumn(t *testing.T, page, heading string) []string {
	t.Helper()
	g := NewWithT(t)
	root, err := local.RepositoryRoot()
	g.Expect(err).NotTo(HaveOccurred())
	content, err := os.ReadFile(filepath.Join(root, "docs", filepath.FromSlash(page)))
	g.Expect(err).NotTo(HaveOccurred())
	_, section, found := strings.Cut(string(content), "\n"+heading+"\n")
	g.Expect(found).To(BeTrue(), heading)
	_, table, found := strings.Cut(section, "|---|")
	g.Expect(found).To(BeTrue(), heading)
	table, _, _ = strings.Cut(table, "\n\n")
	var words []string
	for _, row := range regexp.MustCompile("(?m)^\\| (`.*?) \\|").FindAllStringSubmatch(table, -1) {
		for word := range strings.SplitSeq(row[1], ", ") {
			words = append(words, strings.Trim(word, "`"))
		}
	}
	return words
}

func TestHandlersAreNamedAndServedOnce(t *testing.T) {
	g := NewWithT(t)
	seen := map[string]bool{}
	for _, each := range webhook.Handlers() {
		for _, value := range []string{each.Name, each.Webhook.Path} {
			g.Expect(seen).NotTo(HaveKey(value))
			seen[value] = true
		}
		g.Expect(each.Review(webhook.Settings{})).NotTo(BeNil())
		g.Expect(each.Webhook.Rules).NotTo(BeEmpty(), each.Name)
		for _, rule := range each.Webhook.Rules {
			g.Expect(rule.Operations).NotTo(BeEmpty(), each.Name)
			g.Expect(rule.Operations).NotTo(ContainElement(admissionregistrationv1.OperationAll), "Review allows operations that are not listed")
		}
	}
}
