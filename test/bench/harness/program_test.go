package harness

import (
	"bytes"
	"os"
	"path/filepath"
	"testing"
	"time"

	. "github.com/onsi/gomega"

	"github.com/espalier-dev/espalier/test/local"
)

func TestJobFailsWhenItsProcessExits(t *testing.T) {
	g := NewWithT(t)
	var steps []string
	benchmark := counting("apples", 7)
	benchmark.Jobs = One(func(r *Run) {
		start := func(script string) *Program {
			p := &Program{run: r, binary: local.Binary{Name: "script", Path: filepath.Join(r.Dir, "script"), Dir: r.Dir}}
			r.Check(os.WriteFile(p.binary.Path, []byte("#!/bin/sh\n"+script), 0o700))
			p.Start()
			return p
		}
		start("exec sleep 60").Stop()
		r.Pause(50 * time.Millisecond)
		steps = append(steps, "stopped")
		start("exit 3")
		r.Pause(time.Minute)
		steps = append(steps, "ended")
	})
	err := Main(t.Context(), []string{"apples"}, &bytes.Buffer{}, []Benchmark{benchmark})
	g.Expect(err).To(MatchError(ContainSubstring("has stopped: exit status 3")))
	g.Expect(steps).To(Equal([]string{"stopped"}))
}

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

func TestSumAddsUpTheSeriesWithTheLabels(t *testing.T) {
	g := NewWithT(t)
	metrics, err := ParseMetrics([]byte(metricsText))
	g.Expect(err).NotTo(HaveOccurred())
	g.Expect(metrics.Sum("espalier_managedresource_objects", "state", "applied")).To(Equal(1507.0))
	g.Expect(metrics.Sum("espalier_managedresource_objects", "state", "applied", "side", "b")).To(Equal(7.0))
	g.Expect(metrics.Sum("espalier_managedresource_objects", "state", "claimed")).To(BeZero())
	g.Expect(metrics.Sum("espalier_managedresource_objects")).To(Equal(1510.0))
}

func TestValueIsThatOfAMetricThatExists(t *testing.T) {
	g := NewWithT(t)
	metrics, err := ParseMetrics([]byte(metricsText))
	g.Expect(err).NotTo(HaveOccurred())
	g.Expect(metrics.Value("go_goroutines")).To(Equal(141.0))
	g.Expect(metrics.Value("go_memstats_heap_alloc_bytes")).To(Equal(5596744.8))
	_, err = metrics.Value("go_threads")
	g.Expect(err).To(MatchError("there is no metric go_threads"))
}
