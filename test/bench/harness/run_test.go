package harness

import (
	"bytes"
	"errors"
	"strconv"
	"testing"

	. "github.com/onsi/gomega"
)

// counting is a benchmark that reports its size.
func counting(name string, size int) Benchmark {
	return Benchmark{
		Name: name, Summary: "counts " + name, Group: "fruit",
		Sizes: []Size{Sized(&size, "size", size, 1, "`number` of things")},
		Jobs:  One(func(r *Run) { r.Add(On(name, AtMost("things", "%.0f", float64(size), 10))) }),
	}
}

func TestMain(t *testing.T) {
	for name, tc := range map[string]struct {
		args []string
		want []string // in the output
		err  string
	}{
		"without arguments":            {want: []string{"usage:", "apples", "counts pears"}, err: "flag: help requested"},
		"the flags of a benchmark":     {args: []string{"apples", "-h"}, want: []string{"-size", "-smoke"}, err: "flag: help requested"},
		"a benchmark":                  {args: []string{"apples"}, want: []string{"machine: ", "things   apples    ≤ 10    7         PASS"}},
		"another size":                 {args: []string{"apples", "-size", "11"}, want: []string{"11        MISS"}},
		"a missed target is enforced":  {args: []string{"apples", "-size", "11", "-enforce"}, err: "apples, things: 11, target ≤ 10"},
		"a tiny size":                  {args: []string{"apples", "-smoke"}, want: []string{"≤ 10    1 "}},
		"the benchmarks of a group":    {args: []string{"fruit", "-smoke"}, want: []string{"apples    ≤ 10    1 ", "pears     ≤ 10    1 "}},
		"a group in the usage":         {want: []string{"fruit          apples, pears"}, err: "flag: help requested"},
		"all benchmarks":               {args: []string{"all"}, want: []string{"apples    ≤ 10    7", "pears     ≤ 10    20        MISS"}},
		"a size that is not valid":     {args: []string{"apples", "-size", "0"}, err: "-size: 0 is too small"},
		"a benchmark that is not here": {args: []string{"plums"}, err: `there is no benchmark "plums"`},
		"an argument that is no flag":  {args: []string{"apples", "50x40"}, err: `unexpected argument "50x40"`},
	} {
		t.Run(name, func(t *testing.T) {
			g := NewWithT(t)
			var out bytes.Buffer
			err := Main(t.Context(), tc.args, &out, []Benchmark{counting("apples", 7), counting("pears", 20)})
			if tc.err == "" {
				g.Expect(err).NotTo(HaveOccurred())
			} else {
				g.Expect(err).To(MatchError(tc.err))
			}
			for _, text := range tc.want {
				g.Expect(out.String()).To(ContainSubstring(text))
			}
		})
	}
}

func TestTheRowsOfAJobThatFailsAreShown(t *testing.T) {
	g := NewWithT(t)
	failing := counting("apples", 7)
	failing.Jobs = One(func(r *Run) {
		r.Add([]Row{Inform("apples", "%d", 3), AtMost("pears", "%.0f", 0, 1).If(false)})
		r.Check(errors.New("interrupted"))
	})
	var out bytes.Buffer
	g.Expect(Main(t.Context(), []string{"apples"}, &out, []Benchmark{failing})).To(MatchError("apples: interrupted"))
	g.Expect(out.String()).To(MatchRegexp(`apples +– +3\s+\n`))
	g.Expect(out.String()).To(MatchRegexp(`pears +≤ 1 +– +NOT MEASURED`))
}

func TestAStepThatFailsEndsTheJob(t *testing.T) {
	g := NewWithT(t)
	failing := counting("apples", 7)
	var reached, released []string
	failing.Jobs = One(func(r *Run) {
		r.AtEnd(func(err error) error { released = append(released, "a port"); return err })
		defer r.Within("measure %d", 7)
		defer func() { reached = append(reached, "the deferred function") }()
		r.Check(nil)
		r.Parallel(3, 1, func(i int) {
			r.Together(func() {
				reached = append(reached, strconv.Itoa(i))
				r.Checkf(errors.Join(map[int]error{1: errors.New("refused")}[i]), "create %d", i)
			})
		})
		reached = append(reached, "the next step")
	})
	var out bytes.Buffer
	g.Expect(Main(t.Context(), []string{"apples"}, &out, []Benchmark{failing})).To(MatchError("apples: measure 7: create 1: refused"))
	g.Expect(reached).To(Equal([]string{"0", "1", "the deferred function"}))
	g.Expect(released).To(Equal([]string{"a port"}))
}

func TestTableGroupsByMeasure(t *testing.T) {
	g := NewWithT(t)
	table := Table(append(
		On("soak", Row{Measure: "goroutines", Target: "≤ +20", Figure: "5", Verdict: Miss}, Inform("files", "–").If(false)),
		On("rest", Row{Measure: "goroutines", Target: "≤ +20", Figure: "25", Verdict: Pass, Note: "two runs"})...))
	g.Expect(table).To(Equal(`measure     workload  target  Espalier  
-------     --------  ------  --------  
goroutines  soak      ≤ +20   5         MISS
goroutines  rest      ≤ +20   25        PASS
files       soak      –       –         NOT MEASURED
rest, two runs
`))
}

func TestRatioWithoutTimesIsNotMeasured(t *testing.T) {
	g := NewWithT(t)
	g.Expect(Ratio("a ÷ b", 1.5, 0, 1)).To(Equal(Row{Measure: "a ÷ b", Target: "≤ 1.5", Figure: "–", Verdict: Unmeasured, Enforced: true}))
	g.Expect(Ratio("a ÷ b", 0, 1)).To(Equal(Row{Measure: "a ÷ b", Target: "–", Figure: "–", Verdict: Unmeasured}))
	g.Expect(Ratio("a ÷ b", 0, 3e9, 1e9, 2e9)).To(Equal(Row{
		Measure: "a ÷ b", Target: "–", Figure: "2.00", Note: "a ÷ b: 3.00 s ÷ mean of 1.00 s, 2.00 s (67 % apart)",
	}))
}
