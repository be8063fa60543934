package managedresource

import (
	"testing"
	"time"

	. "github.com/onsi/gomega"

	"github.com/espalier-dev/espalier/test/bench/harness"
)

// goodFigures meet every target of 50×40.
func goodFigures() figures {
	return figures{
		workload:  workload{size: size{50, 40}},
		creations: []time.Duration{time.Second, 3 * time.Second, 9 * time.Second},
		deletions: []time.Duration{9 * time.Second, 2 * time.Second, 4 * time.Second},
		converge:  2500 * time.Millisecond, setFloors: []time.Duration{2 * time.Second, 3 * time.Second},
		rest:         restFigures{window: 2 * time.Minute, other: 3, cpu: 100 * time.Millisecond, memory: 50 << 20},
		repairs:      []time.Duration{20 * time.Millisecond, 30 * time.Millisecond, 400 * time.Millisecond},
		updateTotal:  900 * time.Millisecond,
		updateFloors: []time.Duration{time.Second, 500 * time.Millisecond},
		restart:      2 * time.Second, remove: 3 * time.Second,
	}
}

func TestTable(t *testing.T) {
	g := NewWithT(t)
	g.Expect(harness.Table(goodFigures().rows())).To(Equal(
		`measure                                         workload  Gardener v1.149.3  target             Espalier          
-------                                         --------  -----------------  ------             --------          
converge ÷ floor                                50×40     2.9                ≤ 1.4              1.25              PASS
converge ÷ bare client that writes as much      50×40     –                  ≤ 1.2              1.00              PASS
requests/min at rest, to managed objects        50×40     1,000              0                  0.0 (others 1.5)  PASS
CPU per minute at rest                          50×40     1.6 s              ≤ 0.1 s            0.05 s            PASS
drift repaired, median / max                    50×40     32 s / 34 s        ≤ 100 ms / 500 ms  30 ms / 400 ms    PASS
one object changed in every set, until applied  50×40     3.3 s              ≤ 1.00 s           900 ms            PASS
one object changed in every set ÷ floor         50×40     –                  ≤ 1.5              1.20              PASS
delete all sets ÷ floor                         50×40     53 s               ≤ 1.5              1.00              PASS
resident memory at rest                         50×40     102 MiB            ≤ 60 MiB           50 MiB            PASS
restart until in sync                           50×40     –                  ≤ 3.00 s           2.00 s            PASS
reads per object at restart                     50×40     –                  0                  0 (writes 0)      PASS
50×40, converge ÷ floor: 2.50 s ÷ mean of 1.00 s, 3.00 s (100 % apart)
50×40, converge ÷ bare client that writes as much: 2.50 s ÷ mean of 2.00 s, 3.00 s (40 % apart)
50×40, one object changed in every set ÷ floor: 900 ms ÷ mean of 1.00 s, 500 ms (67 % apart)
50×40, delete all sets ÷ floor: 3.00 s ÷ mean of 2.00 s, 4.00 s (67 % apart)
`))
}

func TestEveryTargetCanBeMissed(t *testing.T) {
	for measure, spoil := range map[string]func(*figures){
		"converge ÷ floor":                           func(f *figures) { f.converge = 3 * time.Second; f.setFloors = f.setFloors[1:] },
		"converge ÷ bare client that writes as much": func(f *figures) { f.setFloors = []time.Duration{time.Second} },
		"requests/min at rest, to managed objects":   func(f *figures) { f.rest.managed = 1 },
		"CPU per minute at rest":                     func(f *figures) { f.rest.cpu = 300 * time.Millisecond },
		"drift repaired, median / max":               func(f *figures) { f.repairs = append(f.repairs, 2*time.Second) },
		"one object changed in every set, until applied": func(f *figures) {
			f.updateTotal, f.updateFloors = 2*time.Second, []time.Duration{2 * time.Second}
		},
		"one object changed in every set ÷ floor": func(f *figures) { f.updateFloors = []time.Duration{500 * time.Millisecond} },
		"delete all sets ÷ floor":                 func(f *figures) { f.remove = 5 * time.Second },
		"resident memory at rest":                 func(f *figures) { f.rest.memory = 61 << 20 },
		"restart until in sync":                   func(f *figures) { f.restart = 4 * time.Second },
		"reads per object at restart":             func(f *figures) { f.restartReads = 1 },
	} {
		t.Run(measure, func(t *testing.T) {
			g := NewWithT(t)
			f := goodFigures()
			spoil(&f)
			for _, r := range f.rows() {
				want := harness.Pass
				if r.Measure == measure {
					want = harness.Miss
				}
				g.Expect(r.Verdict).To(Equal(want), r.Measure)
			}
		})
	}
}

func TestWhatWasNotMeasuredIsNotAPass(t *testing.T) {
	g := NewWithT(t)
	for _, r := range (figures{workload: workload{size: size{100, 100}}}).rows() {
		g.Expect(r.Verdict).To(Equal(harness.Unmeasured), r.Measure)
		g.Expect(r.Figure).To(Equal("–"), r.Measure)
	}
}

func TestFiguresThatDependOnTheMachineAreNotEnforced(t *testing.T) {
	g := NewWithT(t)
	f := goodFigures()
	f.restart, f.updateTotal, f.rest.memory, f.rest.cpu = time.Hour, time.Hour, 1<<40, time.Hour
	f.updateFloors, f.setFloors = []time.Duration{time.Hour}, []time.Duration{time.Hour}
	g.Expect(harness.Enforce(f.rows())).To(Succeed())
	f.converge = 4 * time.Second
	g.Expect(harness.Enforce(f.rows())).To(MatchError("50×40, converge ÷ floor: 2.00, target ≤ 1.4"))
	g.Expect(harness.Enforce((figures{}).rows())).NotTo(Succeed())
}

func TestWhatGrowsWithTheSizeHasTargetsUpToThePublishedSizes(t *testing.T) {
	for name, tc := range map[string]struct {
		size                    size
		update, memory, restart string
	}{
		"the smaller one":       {size{50, 40}, "≤ 1.00 s", "≤ 60 MiB", "≤ 3.00 s"},
		"the larger one":        {size{100, 100}, "≤ 4.00 s", "≤ 90 MiB", "≤ 3.00 s"},
		"more but smaller sets": {size{1000, 10}, "–", "≤ 90 MiB", "≤ 3.00 s"},
		"the largest one":       {size{500, 100}, "–", "≤ 160 MiB", "–"},
		"larger than any":       {size{600, 100}, "–", "–", "–"},
	} {
		t.Run(name, func(t *testing.T) {
			g := NewWithT(t)
			f := goodFigures()
			f.workload.size, f.rest.memory, f.restart = tc.size, 1<<40, time.Hour
			rows := f.rows()
			g.Expect([]string{rows[5].Target, rows[8].Target, rows[9].Target}).To(Equal([]string{tc.update, tc.memory, tc.restart}))
			for _, r := range []harness.Row{rows[8], rows[9]} {
				if r.Target == "–" {
					g.Expect(r.Verdict).To(Equal(harness.Informative), r.Measure)
				} else {
					g.Expect(r.Verdict).NotTo(Equal(harness.Informative), r.Measure)
				}
			}
		})
	}
}
