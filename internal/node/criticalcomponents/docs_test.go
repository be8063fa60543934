package criticalcomponents

import (
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	. "github.com/onsi/gomega"

	"github.com/espalier-dev/espalier/internal/config"
)

func page(t *testing.T) string {
	t.Helper()
	content, err := os.ReadFile(filepath.FromSlash("../../../docs/node-controller.md"))
	NewWithT(t).Expect(err).NotTo(HaveOccurred())
	return string(content)
}

// firstColumn returns the texts in backticks at the beginning of the rows of a section's tables.
func firstColumn(t *testing.T, section string) []string {
	t.Helper()
	_, text, found := strings.Cut(page(t), "\n## "+section+"\n")
	NewWithT(t).Expect(found).To(BeTrue())
	text, _, _ = strings.Cut(text, "\n## ")
	var cells []string
	for _, match := range regexp.MustCompile("(?m)^\\| `([^`]+)`").FindAllStringSubmatch(text, -1) {
		cells = append(cells, match[1])
	}
	slices.Sort(cells)
	return cells
}

func TestThePageNamesAllCauses(t *testing.T) {
	for _, each := range causes() {
		NewWithT(t).Expect(page(t)).To(ContainSubstring("`" + string(each) + "`"))
	}
}

func TestThePageNamesAllEvents(t *testing.T) {
	reasons := []string{
		ReasonReady, ReasonMissing, ReasonUnscheduled, ReasonUnready, ReasonUnregistered, ReasonFailed, ReasonInvalidDriver,
		ReasonInvalidAffinity,
	}
	slices.Sort(reasons)
	NewWithT(t).Expect(firstColumn(t, "Events")).To(Equal(reasons))
}

func TestThePagesConfigurationIsValid(t *testing.T) {
	g := NewWithT(t)
	blocks := regexp.MustCompile("(?s)```yaml\n(apiVersion: resourcemanager.*?)```").FindAllStringSubmatch(page(t), -1)
	g.Expect(blocks).NotTo(BeEmpty())
	for _, block := range blocks {
		cfg, warnings, err := config.ResourceManager([]byte(block[1]))
		g.Expect(err).NotTo(HaveOccurred())
		g.Expect(warnings).To(BeEmpty())
		g.Expect(cfg.Validate()).To(BeEmpty())
		g.Expect(cfg.Controllers.Node.Enabled).To(BeTrue())
	}
}
