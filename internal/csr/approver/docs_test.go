package approver

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	. "github.com/onsi/gomega"

	"github.com/espalier-dev/espalier/internal/config"
	"github.com/espalier-dev/espalier/internal/csr/rules"
)

// page returns the text of the approver's documentation for administrators.
func page(t *testing.T) string {
	t.Helper()
	text, err := os.ReadFile(filepath.FromSlash("../../../docs/csr-approver.md"))
	NewWithT(t).Expect(err).NotTo(HaveOccurred())
	return string(text)
}

func TestThePageNamesEveryReason(t *testing.T) {
	g := NewWithT(t)
	text := page(t)
	for _, reason := range rules.AllReasons() {
		g.Expect(text).To(ContainSubstring("`" + string(reason) + "`"))
	}
}

func TestTheExamplesOfThePageAreValid(t *testing.T) {
	g := NewWithT(t)
	blocks := strings.Split(page(t), "```yaml\n")[1:]
	g.Expect(blocks).To(HaveLen(2))
	var file strings.Builder
	for _, block := range blocks {
		example, _, _ := strings.Cut(block, "```")
		file.WriteString(example)
	}
	cfg, warnings, err := config.ResourceManager([]byte(file.String()))
	g.Expect(err).NotTo(HaveOccurred())
	g.Expect(warnings).To(BeEmpty())
	for _, mistake := range cfg.Validate() {
		g.Expect(mistake.Field).NotTo(HavePrefix("espalier.csrApprover"))
		g.Expect(mistake.Field).NotTo(HavePrefix("controllers.kubeletCSRApprover"))
	}
	g.Expect(cfg.Controllers.KubeletCSRApprover.Enabled).To(BeTrue())
	g.Expect(cfg.Espalier.CSRApprover.ObserveOnly).To(BeTrue())
}
