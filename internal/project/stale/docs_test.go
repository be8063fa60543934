package stale_test

import (
	"maps"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"testing"

	. "github.com/onsi/gomega"

	"github.com/espalier-dev/espalier/internal/project/projecttest"
)

// The table in the documentation names the metrics of the stale loop with their help texts.
func TestMetricsAreDocumented(t *testing.T) {
	s := newScene(t, projecttest.Options{})
	p := s.project()
	s.age(p, 100*day)
	s.status(p, 30*day, 120*day, 0)
	s.expectPlan(p, "unused")
	content, err := os.ReadFile(filepath.FromSlash("../../../docs/reference/metrics.md"))
	s.Expect(err).NotTo(HaveOccurred())
	section := regexp.MustCompile(`(?s)## Stale projects\n.*?\n## `).FindString(string(content))
	documented := map[string]string{}
	for _, row := range regexp.MustCompile("(?m)^\\| `(espalier_project_\\w+)` \\| (?:gauge|counter) \\| [^|]*\\| (.*) \\|$").
		FindAllStringSubmatch(section, -1) {
		documented[row[1]] = row[2]
	}
	registered := map[string]string{}
	families, err := s.Registry.Gather()
	s.Expect(err).NotTo(HaveOccurred())
	for _, family := range families {
		if slices.Contains([]string{
			"espalier_project_stale", "espalier_project_days_to_deletion", "espalier_project_undecided", "espalier_project_would_delete_total",
			"espalier_project_kind_served",
		}, family.GetName()) {
			registered[family.GetName()] = family.GetHelp()
			s.Expect(documented[family.GetName()]).To(HavePrefix(family.GetHelp()))
		}
	}
	s.Expect(slices.Sorted(maps.Keys(documented))).To(Equal(slices.Sorted(maps.Keys(registered))))
	for _, family := range families {
		switch family.GetName() {
		case "espalier_project_stale":
			s.Expect(family.GetMetric()[0].GetGauge().GetValue()).To(BeEquivalentTo(1))
		case "espalier_project_days_to_deletion":
			s.Expect(family.GetMetric()[0].GetGauge().GetValue()).To(BeNumerically("~", 20, 0.001))
		}
	}
}
