package process

import (
	"testing"

	. "github.com/onsi/gomega"
	"github.com/prometheus/client_golang/prometheus"
)

func TestSecondCollectorOfAMetricIsRejected(t *testing.T) {
	g := NewWithT(t)
	newCollector := func() prometheus.Collector {
		always, never := prometheus.NewDesc("always", "A.", nil, nil), prometheus.NewDesc("never", "N.", nil, nil)
		return Collector(func(out chan<- prometheus.Metric) {
			out <- prometheus.MustNewConstMetric(always, prometheus.GaugeValue, 3)
		}, always, never)
	}
	registry := prometheus.NewRegistry()
	g.Expect(registry.Register(newCollector())).To(Succeed())
	g.Expect(registry.Register(newCollector())).NotTo(Succeed())
	g.Expect(registry.Register(prometheus.NewGauge(prometheus.GaugeOpts{Name: "never", Help: "Another."}))).NotTo(Succeed())
	families, err := registry.Gather()
	g.Expect(err).NotTo(HaveOccurred())
	g.Expect(families).To(HaveLen(1))
	g.Expect(families[0].GetName()).To(Equal("always"))
	g.Expect(families[0].GetMetric()[0].GetGauge().GetValue()).To(BeEquivalentTo(3))
}
