package stale_test

import (
	"testing"

	. "github.com/onsi/gomega"

	"github.com/espalier-dev/espalier/internal/project/projecttest"
)

func TestMetricsCountStaleProjects(t *testing.T) {
	s := newScene(t, projecttest.Options{})
	p := s.project()
	s.age(p, 100*day)
	s.status(p, 30*day, 120*day, 0)
	s.expectPlan(p, "unused")
	families, err := s.Registry.Gather()
	s.Expect(err).NotTo(HaveOccurred())
	for _, family := range families {
		switch family.GetName() {
		case "espalier_project_stale":
			s.Expect(family.GetMetric()[0].GetGauge().GetValue()).To(BeEquivalentTo(1))
		case "espalier_project_days_to_deletion":
			s.Expect(family.GetMetric()[0].GetGauge().GetValue()).To(BeNumerically("~", 20, 0.001))
		}
	}
}
