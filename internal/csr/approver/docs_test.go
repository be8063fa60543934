package approver

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	. "github.com/onsi/gomega"

	"github.com/espalier-dev/espalier/internal/config"
)

func TestTheExamplesOfThePageAreValid(t *testing.T) {
	g := NewWithT(t)
	page, err := os.ReadFile(filepath.FromSlash("../../../docs/csr-approver.md"))
	g.Expect(err).NotTo(HaveOccurred())
	blocks := strings.Split(string(page), "```yaml\n")[1:]
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
