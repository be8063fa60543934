package main

import (
	"encoding/json"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	. "github.com/onsi/gomega"
)

const oneRule = `groups:
- name: g
  rules:
  - alert: Quiet
    expr: jobs_total > 1000000
  - alert: Soon
    expr: jobs_total > 0
    for: 5m
  - alert: Now
    expr: jobs_total > 0
`

// scrapes writes scrapes of a counter that grows, and of a histogram without observations.
func scrapes(t *testing.T) []string {
	t.Helper()
	g := NewWithT(t)
	var files []string
	for i := range 4 {
		file := filepath.Join(t.TempDir(), "scrape")
		g.Expect(os.WriteFile(file, []byte("# TYPE jobs_total counter\njobs_total{kind=\"a\"} "+strings.Repeat("1", i+1)+"\n"+
			"# TYPE took_seconds histogram\ntook_seconds_bucket{le=\"1\"} 1\ntook_seconds_bucket{le=\"+Inf\"} 1\ntook_seconds_sum 1\n"+
			"took_seconds_count 1\n"), 0o600)).To(Succeed())
		written := time.UnixMilli(int64(1_700_000_000_000 + 5*i))
		g.Expect(os.Chtimes(file, written, written)).To(Succeed())
		files = append(files, file)
	}
	return files
}

// files writes the alerts, and a dashboard whose first panel has the query.
func files(t *testing.T, expr, rules string) []string {
	t.Helper()
	g := NewWithT(t)
	d := smallDashboard()
	for i := range d.Templating.List {
		d.Templating.List[i].Query = []byte(`{"query": "label_values(jobs_total, ` + d.Templating.List[i].Name + `)"}`)
	}
	d.Panels[1].Targets[0].Expr = expr
	content, err := json.Marshal(d)
	g.Expect(err).NotTo(HaveOccurred())
	board, alerts := filepath.Join(t.TempDir(), "board.json"), filepath.Join(t.TempDir(), "rules.yaml")
	g.Expect(os.WriteFile(board, content, 0o600)).To(Succeed())
	g.Expect(os.WriteFile(alerts, []byte(rules), 0o600)).To(Succeed())
	return []string{"-dashboard", board, "-rules", alerts}
}

func TestRun(t *testing.T) {
	for name, tc := range map[string]struct {
		expr, rules string
		scrapes     []string
		want        []string
		problem     string
	}{
		"a query with data": {
			expr: `sum by (kind, job) (rate(jobs_total{namespace=~"$namespace", job=~"$job"}[$__rate_interval]))`,
			want: []string{
				"variable $namespace   data", "variable $job         data", `panel "one", A        data (1 series)`,
				"alert Quiet           quiet", "alert Soon            holds now, fires if it lasts 5m", "alert Now             fires",
				"all 3 queries of the dashboard return data, all 3 alerts can be evaluated",
			},
		},
		"a query that falls back to zero": {
			expr: `sum(faults_total) or vector(0)`, want: []string{`panel "one", A        0, since there is no faults_total yet`},
		},
		"a metric that is not served": {
			expr: `faults_total`, want: []string{`panel "one", A        NO DATA: there is no faults_total`}, problem: "1 of 6 queries have no data",
		},
		"a quantile of nothing": {
			expr: `histogram_quantile(0.9, rate(took_seconds_bucket[5m]))`,
			want: []string{`panel "one", A        NO DATA, although the metrics exist`}, problem: "1 of 6 queries have no data",
		},
		"a query that does not parse": {expr: `sum(`, problem: `evaluate panel "one", A: 1:5: parse error: unclosed left parenthesis`},
		"a query of a whole range":    {expr: `jobs_total[5m]`, problem: `evaluate panel "one", A: it gives a matrix, which no panel shows`},
		"an alert that does not parse": {
			expr: "1", rules: "groups: [{name: g, rules: [{alert: A, expr: 'sum('}]}]", problem: "could not parse expression",
		},
		"a single scrape":          {expr: "1", scrapes: scrapes(t)[:1], problem: "there must be at least 2 scrapes: a rate needs two samples"},
		"a scrape that is missing": {expr: "1", scrapes: []string{"a", "b"}, problem: "read metrics of a: open a: no such file or directory"},
	} {
		t.Run(name, func(t *testing.T) {
			g := NewWithT(t)
			if tc.rules == "" {
				tc.rules = oneRule
			}
			if tc.scrapes == nil {
				tc.scrapes = scrapes(t)
			}
			var out strings.Builder
			err := run(t.Context(), append(files(t, tc.expr, tc.rules), tc.scrapes...), &out)
			if tc.problem == "" {
				g.Expect(err).NotTo(HaveOccurred())
			} else {
				g.Expect(err).To(MatchError(ContainSubstring(tc.problem)))
			}
			for _, line := range tc.want {
				g.Expect(out.String()).To(ContainSubstring(line))
			}
		})
	}
}

func TestStoreRefusesWhatIsNotMetrics(t *testing.T) {
	g := NewWithT(t)
	s, err := openStore()
	g.Expect(err).NotTo(HaveOccurred())
	page := filepath.Join(t.TempDir(), "page")
	g.Expect(os.WriteFile(page, []byte("<html>"), 0o600)).To(Succeed())
	g.Expect(s.load(t.Context(), page)).NotTo(Succeed())
	g.Expect(s.close()).To(Succeed())
	g.Expect(s.folder).NotTo(BeADirectory())
}
