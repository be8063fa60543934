package process

import (
	"testing"

	. "github.com/onsi/gomega"
	"github.com/prometheus/client_golang/prometheus"
)

func TestBuildInfoNamesTheBinary(t *testing.T) {
	g := NewWithT(t)
	registry := prometheus.NewRegistry()
	g.Expect(registerBuildInfo(registry, Program{Name: "csr-approver"})).To(Succeed())
	g.Expect(registerBuildInfo(registry, Program{Name: "csr-approver"})).To(Succeed(), "tests run a binary several times")
	g.Expect(registerBuildInfo(registry, Program{Name: "netpol-controller"})).To(Succeed())
	families, err := registry.Gather()
	g.Expect(err).NotTo(HaveOccurred())
	var binaries []string
	for _, each := range families[0].GetMetric() {
		binaries = append(binaries, each.GetLabel()[0].GetValue())
		g.Expect(each.GetGauge().GetValue()).To(Equal(1.0))
	}
	g.Expect(binaries).To(Equal([]string{"csr-approver", "netpol-controller"}))
}
