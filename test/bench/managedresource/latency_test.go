package managedresource

import (
	"testing"
	"time"

	. "github.com/onsi/gomega"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"github.com/espalier-dev/espalier/test/bench/harness"
)

func TestLatencyRows(t *testing.T) {
	took := func(n int, all, last int) []time.Duration {
		values := make([]time.Duration, n)
		for i := range values {
			values[i] = time.Duration(all) * time.Millisecond
		}
		values[n-1] = time.Duration(last) * time.Millisecond
		return values
	}
	l := latency{deployments: 100, together: 10}
	for name, tc := range map[string]struct {
		took []time.Duration
		want harness.Row
	}{
		"within both targets": {took(100, 50, 500), harness.Row{Figure: "50 ms / 50 ms / 500 ms", Verdict: harness.Pass}},
		"a slow median":       {took(100, 51, 60), harness.Row{Figure: "51 ms / 51 ms / 60 ms", Verdict: harness.Miss}},
		"a slow one":          {took(100, 5, 501), harness.Row{Figure: "5 ms / 5 ms / 501 ms", Verdict: harness.Miss}},
		"not all of them":     {took(99, 5, 5), harness.Row{Figure: "5 ms / 5 ms / 5 ms", Verdict: harness.Miss}},
		"none":                {nil, harness.Row{Figure: "–", Verdict: harness.Unmeasured}},
	} {
		t.Run(name, func(t *testing.T) {
			g := NewWithT(t)
			rounds := l.plan()
			rounds[0].took = tc.took
			rows := l.rows(rounds)
			g.Expect(harness.Row{Figure: rows[0].Figure, Verdict: rows[0].Verdict}).To(Equal(tc.want))
			g.Expect(rows[1:]).To(Equal([]harness.Row{
				{
					Measure: "Deployment broken → not Healthy, Progressing, median / p95 / max", Workload: "100, 1 at a time",
					Target: "≤ 50 ms / – / 500 ms", Figure: "–", Verdict: harness.Unmeasured,
				},
				{
					Measure: "Deployment rolled out → Healthy, not Progressing, median / p95 / max", Workload: "100, 10 at a time",
					Target: "≤ 50 ms / – / 500 ms", Figure: "–", Verdict: harness.Unmeasured,
				},
				{
					Measure: "Deployment broken → not Healthy, Progressing, median / p95 / max", Workload: "100, 10 at a time",
					Target: "≤ 50 ms / – / 500 ms", Figure: "–", Verdict: harness.Unmeasured,
				},
			}))
		})
	}
}

func TestAnotherVersionOfADeploymentIsAnotherTemplate(t *testing.T) {
	g := NewWithT(t)
	before, after := rolledDeployment(3, 2, "1"), rolledDeployment(3, 2, "2")
	g.Expect(before.Object["spec"]).NotTo(Equal(after.Object["spec"]))
	version, _, err := unstructured.NestedString(after.Object, "spec", "template", "metadata", "annotations", "bench.espalier.dev/version")
	g.Expect(err).NotTo(HaveOccurred())
	g.Expect(version).To(Equal("2"))
	g.Expect(describe(after)).To(Equal("Deployment bench-ours-003/set-003"))
	g.Expect(after.Object["spec"]).To(HaveKeyWithValue("replicas", int64(2)))
}
