package main

import (
	"encoding/json"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"sync/atomic"
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

// server serves a counter that grows by one with each scrape, an empty histogram, and the given metrics.
func server(t *testing.T, status int) string {
	t.Helper()
	var scrapes atomic.Int64
	s := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Content-Type", "text/plain; version=0.0.4; charset=utf-8")
		w.WriteHeader(status)
		_, _ = w.Write([]byte("# TYPE jobs_total counter\njobs_total{kind=\"a\"} " + strings.Repeat("1", int(scrapes.Add(1))) + "\n" +
			"# TYPE took_seconds histogram\ntook_seconds_bucket{le=\"1\"} 1\ntook_seconds_bucket{le=\"+Inf\"} 1\ntook_seconds_sum 1\n" +
			"took_seconds_count 1\n"))
	}))
	t.Cleanup(s.Close)
	return s.URL
}

// files writes the alerts, and a dashboard whose first panel has the query.
func files(t *testing.T, expr, rules string) []string {
	t.Helper()
	g := NewWithT(t)
	d := smallDashboard()
	for i := range d.Templating.List {
		d.Templating.List[i].Query = []byte(`"label_values(jobs_total, ` + d.Templating.List[i].Name + `)"`)
	}
	d.Panels = d.Panels[:2]
	d.Panels[1].Targets[0].Expr = expr
	content, err := json.Marshal(d)
	g.Expect(err).NotTo(HaveOccurred())
	board, alerts := filepath.Join(t.TempDir(), "board.json"), filepath.Join(t.TempDir(), "rules.yaml")
	g.Expect(os.WriteFile(board, content, 0o600)).To(Succeed())
	g.Expect(os.WriteFile(alerts, []byte(rules), 0o600)).To(Succeed())
	return []string{"-dashboard", board, "-rules", alerts, "-interval", "5ms"}
}

func TestRun(t *testing.T) {
	for name, tc := range map[string]struct {
		expr, rules string
		status      int
		args        []string
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
		"a command that makes something happen": {
			expr: "1", args: []string{"--", "echo", "something happens"},
			want: []string{"something happens"},
		},
		"a command that fails": {expr: "1", args: []string{"--", "false"}, problem: "run false: exit status 1"},
		"a single scrape": {
			expr: "1", args: []string{"-scrapes", "1"},
			problem: "-scrapes must be at least 2: a rate needs two samples",
		},
		"an endpoint that refuses": {expr: "1", status: http.StatusForbidden, problem: "answers 403 Forbidden"},
	} {
		t.Run(name, func(t *testing.T) {
			g := NewWithT(t)
			if tc.rules == "" {
				tc.rules = oneRule
			}
			if tc.status == 0 {
				tc.status = http.StatusOK
			}
			var out strings.Builder
			err := run(t.Context(), append(append([]string{"-metrics", server(t, tc.status)}, files(t, tc.expr, tc.rules)...), tc.args...), &out)
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
	g.Expect(s.add(t.Context(), []byte("<html>"), "text/plain; version=0.0.4", time.UnixMilli(1))).NotTo(Succeed())
	g.Expect(s.close()).To(Succeed())
	g.Expect(s.folder).NotTo(BeADirectory())
}
