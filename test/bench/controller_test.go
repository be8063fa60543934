package main

import (
	"testing"

	. "github.com/onsi/gomega"
)

const metricsText = `# HELP espalier_managedresource_objects Objects.
# TYPE espalier_managedresource_objects gauge
espalier_managedresource_objects{state="applied"} 1.5e+03
espalier_managedresource_objects{side="b",state="applied"} 7
espalier_managedresource_objects{state="failed"} 3
espalier_managedresource_objects_total{state="applied"} 100
`

func TestGaugeAddsUpTheSeriesWithTheLabel(t *testing.T) {
	g := NewWithT(t)
	g.Expect(gauge(metricsText, "espalier_managedresource_objects", `state="applied"`)).To(Equal(1507))
	_, err := gauge(metricsText, "espalier_managedresource_objects", `state="claimed"`)
	g.Expect(err).To(MatchError(`there is no metric espalier_managedresource_objects{state="claimed"}`))
}

func TestFreePortsDiffer(t *testing.T) {
	g := NewWithT(t)
	ports, err := freePorts(3)
	g.Expect(err).NotTo(HaveOccurred())
	g.Expect(map[int]bool{ports[0]: true, ports[1]: true, ports[2]: true}).To(HaveLen(3))
}
