package extensionaccess

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	. "github.com/onsi/gomega"
	"github.com/prometheus/client_golang/prometheus"
)

// The page has the name, the type, the labels and the help text of each metric. It may add further text.
func TestThePageNamesAllMetrics(t *testing.T) {
	g := NewWithT(t)
	content, err := os.ReadFile(filepath.FromSlash("../../../docs/reference/metrics.md"))
	g.Expect(err).NotTo(HaveOccurred())
	documented := map[string]bool{}
	for line := range strings.Lines(string(content)) {
		if name, ok := strings.CutPrefix(line, "| `espalier_project_extension_"); ok {
			name, _, _ = strings.Cut(name, "`")
			documented["espalier_project_extension_"+name] = true
		}
	}
	registry := prometheus.NewRegistry()
	NewOutcomes(registry)
	families, err := registry.Gather()
	g.Expect(err).NotTo(HaveOccurred())
	registered := map[string]bool{}
	for _, family := range families {
		registered[family.GetName()] = true
		row := "| `" + family.GetName() + "` | " + strings.ToLower(family.GetType().String()) + " | `" +
			family.GetMetric()[0].GetLabel()[0].GetName() + "` | " + family.GetHelp()
		g.Expect(string(content)).To(ContainSubstring("\n" + row))
		for _, metric := range family.GetMetric() {
			g.Expect(string(content)).To(ContainSubstring("`" + metric.GetLabel()[0].GetValue() + "`"))
		}
	}
	g.Expect(documented).To(Equal(registered))
}
