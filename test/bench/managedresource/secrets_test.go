package managedresource

import (
	"testing"
	"time"

	. "github.com/onsi/gomega"

	"github.com/espalier-dev/espalier/test/bench/harness"
)

// goodForeignFigures meet every target.
func goodForeignFigures() foreignFigures {
	return foreignFigures{
		foreignSecrets: foreignSecrets{secrets: 80000, wait: time.Minute},
		lists:          []time.Duration{time.Second, 900 * time.Millisecond, 2 * time.Second},
		ready:          []time.Duration{2 * time.Second, 3 * time.Second}, inSync: []time.Duration{4 * time.Second, 3500 * time.Millisecond},
		empty: footprint{35 << 20, 36 << 20, 5 << 20}, few: footprint{39 << 20, 40 << 20, 7 << 20}, full: footprint{
			95 << 20, 150 << 20,
			40 << 20,
		},
	}
}

func TestForeignRows(t *testing.T) {
	NewWithT(t).Expect(goodForeignFigures().rows()).To(Equal([]harness.Row{
		{
			Measure: "ready after the API server's list", Workload: "80000 foreign Secrets", Target: "≤ 5.00 s", Figure: "2.00 s (3.00 s − 1.00 " +
				"s)", Verdict: harness.Pass,
			Note: "ready after the API server's list: ready after 2.00 s, 3.00 s (40 % apart), lists 1.00 s, 900 ms, 2.00 s (85 % apart)",
		},
		{Measure: "start-up until all sets are in sync", Workload: "80000 foreign Secrets", Target: "–", Figure: "4.00 s"},
		{
			Measure: "resident memory above an empty source", Workload: "80000 foreign Secrets", Target: "≤ 60 MiB", Figure: "60 MiB (95 MiB − " +
				"35 MiB)", Verdict: harness.Pass,
			Note: "resident memory, each 1m0s after start-up: empty 35 MiB, heap in use 5 MiB, at most 36 MiB; " +
				"with the sets alone 39 MiB, heap in use 7 MiB, at most 40 MiB; with everything 95 MiB, heap in use 40 MiB, at most 150 MiB",
		},
		{Measure: "highest resident memory until then", Workload: "80000 foreign Secrets", Target: "–", Figure: "150 MiB"},
	}))
}

func TestForeignTargetsCanBeMissed(t *testing.T) {
	g := NewWithT(t)
	f := goodForeignFigures()
	f.ready = append(f.ready, 6001*time.Millisecond)
	f.full.resident++
	rows := f.rows()
	g.Expect([]harness.Verdict{rows[0].Verdict, rows[2].Verdict}).To(Equal([]harness.Verdict{harness.Miss, harness.Miss}))
	for _, r := range (foreignFigures{}).rows() {
		g.Expect(r.Verdict).To(Equal(harness.Unmeasured), r.Measure)
		g.Expect(r.Figure+r.Note).To(Equal("–"), r.Measure)
	}
}

func TestForeignSecrets(t *testing.T) {
	g := NewWithT(t)
	s := foreignSecret(1234)
	g.Expect(foreignSecret(1234)).To(Equal(s), "the same number gives the same Secret")
	g.Expect(foreignSecret(1235).Data).NotTo(Equal(s.Data))
	g.Expect(s.Namespace).To(Equal("tenant-34--workspace"))
	size := 0
	for _, data := range s.Data {
		size += len(data)
	}
	g.Expect(size).To(Equal(1200))
	g.Expect(s.Labels).To(HaveLen(6))
	g.Expect(s.Labels).NotTo(HaveKey("resources.gardener.cloud/managed-by"), "it has no manager")
	g.Expect(s.ManagedFields).To(HaveLen(1))
}
