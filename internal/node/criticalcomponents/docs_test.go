package criticalcomponents

import (
	"os"
	"path/filepath"
	"regexp"
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

func TestThePageNamesAllCauses(t *testing.T) {
	for _, each := range causes() {
		NewWithT(t).Expect(page(t)).To(ContainSubstring("`" + string(each) + "`"))
	}
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
