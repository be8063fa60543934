package main

import (
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	. "github.com/onsi/gomega"
)

const metricsPage = "../../docs/reference/metrics.md"

var metricName = regexp.MustCompile("`([A-Za-z_]+\\*?)[{`]")

// documentedMetrics returns the metrics in the first columns of the tables about metrics, on all pages. A metric of ours counts only in a
// table that is generated from the code.
func documentedMetrics(t *testing.T) func(string) bool {
	t.Helper()
	g := NewWithT(t)
	pages, err := filepath.Glob("../../docs/*.md")
	g.Expect(err).NotTo(HaveOccurred())
	names := map[string]bool{}
	for _, page := range append(pages, metricsPage) {
		content, err := os.ReadFile(filepath.FromSlash(page))
		g.Expect(err).NotTo(HaveOccurred())
		generated := false
		for line := range strings.Lines(string(content)) {
			switch {
			case strings.HasPrefix(line, "<!-- begin generated: metrics "):
				generated = true
			case strings.HasPrefix(line, "<!-- end generated"):
				generated = false
			}
			cells := strings.Split(line, "|")
			if len(cells) < 3 || (!generated && page != metricsPage) {
				continue
			}
			for _, match := range metricName.FindAllStringSubmatch(cells[1], -1) {
				if generated || !strings.HasPrefix(match[1], "espalier_") {
					names[match[1]] = true
				}
			}
		}
	}
	NewWithT(t).Expect(names).To(HaveKey("espalier_managedresource_watches"))
	return func(metric string) bool {
		base := metric
		for _, suffix := range []string{"_bucket", "_sum", "_count"} {
			base = strings.TrimSuffix(base, suffix)
		}
		return names[metric] || names[base]
	}
}

// Every metric of Espalier that is documented has a panel, unless the comment above its declaration says that it has none.
func TestDashboardShowsEveryMetricOfOurs(t *testing.T) {
	g := NewWithT(t)
	content, err := os.ReadFile(filepath.FromSlash(metricsPage))
	g.Expect(err).NotTo(HaveOccurred())
	var all strings.Builder
	for _, d := range generatedDashboards(t) {
		for _, p := range d.all() {
			for _, query := range p.Targets {
				all.WriteString(query.Expr + "\n")
			}
		}
	}
	for _, match := range regexp.MustCompile("(?m)^\\| `(espalier_managedresource_\\w+)`.*$").FindAllStringSubmatch(string(content), -1) {
		without := strings.Contains(match[0], "The dashboard does not show it.")
		g.Expect(strings.Contains(all.String(), match[1])).NotTo(Equal(without), match[0])
	}
}

// The page promises that it names only those metrics of libraries that are used.
func TestEveryMetricOfTheLibrariesThatIsNamedIsUsed(t *testing.T) {
	g := NewWithT(t)
	content, err := os.ReadFile(filepath.FromSlash(metricsPage))
	g.Expect(err).NotTo(HaveOccurred())
	_, table, found := strings.Cut(string(content), "\n## From the libraries\n")
	g.Expect(found).To(BeTrue())
	g.Expect(table).To(ContainSubstring("each of which a dashboard or an alert uses:"))
	var used strings.Builder
	for _, each := range generatedDashboards(t) {
		for _, p := range each.all() {
			for _, query := range p.Targets {
				used.WriteString(query.Expr + "\n")
			}
		}
	}
	for _, alert := range alertsIn(t, slices.Concat(ruleFiles, recordFiles)...) {
		used.WriteString(alert.Expr + "\n")
	}
	named := 0
	for line := range strings.Lines(table) {
		cells := strings.Split(line, "|")
		if len(cells) < 3 {
			continue
		}
		for _, match := range metricName.FindAllStringSubmatch(cells[1], -1) {
			g.Expect(used.String()).To(MatchRegexp(`\b` + match[1] + `(_bucket|_sum|_count)?\b`))
			named++
		}
	}
	g.Expect(named).To(BeNumerically(">", 15))
}

// smallDashboard returns a dashboard with two variables, a row and a panel.
func smallDashboard() dashboard {
	d := dashboard{UID: "small", Title: "Small"}
	for _, name := range []string{"namespace", "job"} {
		d.Templating.List = append(d.Templating.List, variable{
			Name: name, Type: "query", Query: []byte(`{"query": "label_values(m, ` + name + `)"}`), AllValue: ".*",
		})
	}
	d.Panels = []panel{
		{Type: "row", Title: "row", GridPos: gridPos{H: 1, W: 24}},
		{Type: "graph", Title: "one", GridPos: gridPos{H: 8, W: 12, Y: 1}, Targets: []target{{RefID: "A", Expr: "m"}}},
	}
	return d
}

func TestSubstitute(t *testing.T) {
	NewWithT(t).Expect(substitute(`rate(m{job=~"$job", pod=~"${pod}"}[$__rate_interval]) + $other`,
		map[string]string{"job": ".*", "pod": "p", "__rate_interval": "5m"})).To(Equal(`rate(m{job=~".*", pod=~"p"}[5m]) + $other`))
}

func TestLabelQuery(t *testing.T) {
	for name, tc := range map[string]struct {
		query, selector, label, problem string
	}{
		"a selector": {query: `{"query": "label_values(m{a=\"b\"}, job)", "refId": "x"}`, selector: `m{a="b"}`, label: "job"},
		"another function": {
			query: `{"query": "metrics(m)"}`, problem: `query of variable v: "metrics(m)" is not label_values(<selector>, <label>)`,
		},
		"a query of another form": {query: `"label_values(m, job)"`, problem: "query of variable v: json: cannot unmarshal string"},
	} {
		t.Run(name, func(t *testing.T) {
			g := NewWithT(t)
			selector, label, err := variable{Name: "v", Query: []byte(tc.query)}.labelQuery()
			if tc.problem != "" {
				g.Expect(err).To(MatchError(HavePrefix(tc.problem)))
			} else {
				g.Expect(err).NotTo(HaveOccurred())
			}
			g.Expect([]string{selector, label}).To(Equal([]string{tc.selector, tc.label}))
		})
	}
}
