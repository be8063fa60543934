package main

import (
	"context"
	"errors"
	"testing"
	"time"

	. "github.com/onsi/gomega"

	"github.com/espalier-dev/espalier/test/bench/gauge"
)

const metricsText = `# HELP espalier_managedresource_objects Objects.
# TYPE espalier_managedresource_objects gauge
espalier_managedresource_objects{state="applied"} 1.5e+03
espalier_managedresource_objects{side="b",state="applied"} 7
espalier_managedresource_objects{state="failed"} 3
espalier_managedresource_objects_total{state="applied"} 100
go_goroutines_other 3
go_goroutines 141
go_memstats_heap_alloc_bytes 5.5967448e+06
`

func TestGaugeAddsUpTheSeriesWithTheLabel(t *testing.T) {
	g := NewWithT(t)
	g.Expect(total(metricsText, "espalier_managedresource_objects", `state="applied"`)).To(Equal(1507))
	_, err := total(metricsText, "espalier_managedresource_objects", `state="claimed"`)
	g.Expect(err).To(MatchError(`there is no metric espalier_managedresource_objects{state="claimed"}`))
}

func TestFreePortsDiffer(t *testing.T) {
	g := NewWithT(t)
	ports, err := gauge.FreePorts(3)
	g.Expect(err).NotTo(HaveOccurred())
	g.Expect(map[int]bool{ports[0]: true, ports[1]: true, ports[2]: true}).To(HaveLen(3))
}

func TestValueIsThatOfTheSeriesWithoutLabels(t *testing.T) {
	g := NewWithT(t)
	g.Expect(value(metricsText, "go_goroutines")).To(Equal(141.0))
	g.Expect(value(metricsText, "go_memstats_heap_alloc_bytes")).To(Equal(5596744.8))
	_, err := value(metricsText, "espalier_managedresource_objects")
	g.Expect(err).To(MatchError("there is no metric espalier_managedresource_objects"))
}

func TestAwaitGivesUpWhenThereIsNothingToWaitFor(t *testing.T) {
	err := await(t.Context(), 5*time.Second, "a process to be ready", func(context.Context) error { return endedError{errors.New("it has ended")} })
	NewWithT(t).Expect(err).To(MatchError("wait for a process to be ready: it has ended"))
}
