package main

import (
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	. "github.com/onsi/gomega"
)

const (
	dashboardFile = "../../deploy/observability/managedresource-controller.dashboard.json"
	metricsPage   = "../../docs/reference/metrics.md"
)

// checkDashboard returns one sentence for each mistake in the dashboard; documented reports whether a metric is documented.
func checkDashboard(d dashboard, documented func(string) bool) []string {
	return slices.Concat(checkHead(d), checkLayout(d), checkPanels(d), checkQueries(d, documented))
}

func checkHead(d dashboard) []string {
	var broken []string
	for field, value := range map[string]string{"uid": d.UID, "title": d.Title, "description": d.Description} {
		if value == "" {
			broken = append(broken, "it has no "+field)
		}
	}
	types := map[string]string{}
	for _, v := range d.Templating.List {
		types[v.Name] = v.Type
		if v.Type != "query" {
			continue
		}
		if !ofVariable(v.Datasource) {
			broken = append(broken, fmt.Sprintf("variable %s does not ask the chosen data source", v.Name))
		}
		if !v.IncludeAll || v.AllValue != ".*" {
			broken = append(broken, fmt.Sprintf("variable %s cannot be left open: a metric may lack the label", v.Name))
		}
	}
	for name, kind := range map[string]string{"datasource": "datasource", "namespace": "query", "job": "query"} {
		if types[name] != kind {
			broken = append(broken, fmt.Sprintf("there is no variable %s of type %s", name, kind))
		}
	}
	return broken
}

func ofVariable(d *datasource) bool {
	return d != nil && *d == datasource{Type: "prometheus", UID: "${datasource}"}
}

// checkLayout finds duplicate ids, and panels that overlap or exceed Grafana's 24 columns.
func checkLayout(d dashboard) []string {
	var broken []string
	ids := map[int]string{}
	cells := map[[2]int]string{}
	for _, p := range d.all() {
		if other, taken := ids[p.ID]; taken || p.ID == 0 {
			broken = append(broken, fmt.Sprintf("panel %q has id %d, as has %q", p.Title, p.ID, other))
		}
		ids[p.ID] = p.Title
		at := p.GridPos
		if at.W < 1 || at.H < 1 || at.X < 0 || at.Y < 0 || at.X+at.W > 24 {
			broken = append(broken, fmt.Sprintf("panel %q is out of the grid", p.Title))
		}
		covered := map[string]bool{}
		for x := at.X; x < at.X+at.W; x++ {
			for y := at.Y; y < at.Y+at.H; y++ {
				if other, taken := cells[[2]int{x, y}]; taken && !covered[other] {
					covered[other] = true
					broken = append(broken, fmt.Sprintf("panel %q covers %q", p.Title, other))
				}
				cells[[2]int{x, y}] = p.Title
			}
		}
	}
	return broken
}

func checkPanels(d dashboard) []string {
	var broken []string
	for _, p := range d.all() {
		say := func(what string) { broken = append(broken, fmt.Sprintf("panel %q %s", p.Title, what)) }
		if p.Title == "" {
			say("has no title")
		}
		if p.Type == "row" {
			continue
		}
		if !strings.Contains(p.Description, "**") {
			say("does not say in its description what to look for (in bold) and do")
		}
		if !ofVariable(p.Datasource) {
			say("does not ask the chosen data source")
		}
		if p.FieldConfig.Defaults.Unit == "" {
			say("has no unit")
		}
		if len(p.Targets) == 0 {
			say("has no query")
		}
		references := map[string]bool{}
		for _, t := range p.Targets {
			if t.RefID == "" || references[t.RefID] {
				say(fmt.Sprintf("has no query of its own by the name %q", t.RefID))
			}
			references[t.RefID] = true
			if !ofVariable(t.Datasource) {
				say("has a query that does not ask the chosen data source")
			}
			if t.LegendFormat == "" {
				say("has a query without a legend")
			}
		}
	}
	return broken
}

// checkQueries parses each query and requires that it uses the variables.
func checkQueries(d dashboard, documented func(string) bool) []string {
	var broken []string
	values := d.substitutions()
	for _, p := range d.all() {
		for _, t := range p.Targets {
			where := fmt.Sprintf("panel %q, %s", p.Title, t.RefID)
			names, err := metricsOf(substitute(t.Expr, values))
			if err != nil {
				broken = append(broken, fmt.Sprintf("%s: %v", where, err))
				continue
			}
			for _, name := range names {
				if !documented(name) {
					broken = append(broken, fmt.Sprintf("%s: %s is not documented", where, name))
				}
			}
			if chosen := strings.Count(t.Expr, `namespace=~"$namespace", job=~"$job"`); chosen != len(names) {
				broken = append(broken, where+": not every metric is restricted to the chosen namespace and job")
			}
		}
	}
	return broken
}

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

func realDashboard(t *testing.T) dashboard {
	t.Helper()
	d, err := readDashboard(filepath.FromSlash(dashboardFile))
	NewWithT(t).Expect(err).NotTo(HaveOccurred())
	return d
}

func TestDashboard(t *testing.T) {
	g := NewWithT(t)
	d := realDashboard(t)
	g.Expect(checkDashboard(d, documentedMetrics(t))).To(BeEmpty())
	g.Expect(d.UID).To(Equal("espalier-managedresource"), "links and bookmarks rely on it")
}

// Every metric of Espalier that is documented has a panel, unless the comment above its declaration says that it has none.
func TestDashboardShowsEveryMetricOfOurs(t *testing.T) {
	g := NewWithT(t)
	d := realDashboard(t)
	content, err := os.ReadFile(filepath.FromSlash(metricsPage))
	g.Expect(err).NotTo(HaveOccurred())
	var all strings.Builder
	for _, p := range d.all() {
		for _, query := range p.Targets {
			all.WriteString(query.Expr + "\n")
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
	for _, p := range realDashboard(t).all() {
		for _, query := range p.Targets {
			used.WriteString(query.Expr + "\n")
		}
	}
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

func TestCheckDashboardFindsWhatIsWrong(t *testing.T) {
	known := func(metric string) bool { return metric != "unheard_of" }
	for name, tc := range map[string]struct {
		spoil func(*dashboard)
		want  string
	}{
		"no uid": {func(d *dashboard) { d.UID = "" }, "it has no uid"},
		"no variable for the job": {
			func(d *dashboard) { d.Templating.List = d.Templating.List[:2] },
			"there is no variable job of type query",
		},
		"a variable with a fixed source": {
			func(d *dashboard) { d.Templating.List[2].Datasource = nil },
			"variable job does not ask the chosen data source",
		},
		"a variable that must be chosen": {
			func(d *dashboard) { d.Templating.List[2].IncludeAll = false },
			"variable job cannot be left open: a metric may lack the label",
		},
		"an id used twice":        {func(d *dashboard) { d.Panels[2].ID = d.Panels[1].ID }, `panel "two" has id 2, as has "one"`},
		"a panel over another":    {func(d *dashboard) { d.Panels[2].GridPos.X-- }, `panel "two" covers "one"`},
		"a panel beside the grid": {func(d *dashboard) { d.Panels[2].GridPos.W++ }, `panel "two" is out of the grid`},
		"a description without advice": {
			func(d *dashboard) { d.Panels[1].Description = "A thing." },
			`panel "one" does not say in its description what to look for (in bold) and do`,
		},
		"a panel with a fixed source": {
			func(d *dashboard) { d.Panels[1].Datasource.UID = "abc" },
			`panel "one" does not ask the chosen data source`,
		},
		"no unit":  {func(d *dashboard) { d.Panels[1].FieldConfig.Defaults.Unit = "" }, `panel "one" has no unit`},
		"no query": {func(d *dashboard) { d.Panels[1].Targets = nil }, `panel "one" has no query`},
		"two queries of one name": {
			func(d *dashboard) { d.Panels[1].Targets = append(d.Panels[1].Targets, d.Panels[1].Targets[0]) },
			`panel "one" has no query of its own by the name "A"`,
		},
		"a query with a fixed source": {
			func(d *dashboard) { d.Panels[1].Targets[0].Datasource = nil },
			`panel "one" has a query that does not ask the chosen data source`,
		},
		"a query without a legend": {
			func(d *dashboard) { d.Panels[1].Targets[0].LegendFormat = "" },
			`panel "one" has a query without a legend`,
		},
		"a query that does not parse": {
			func(d *dashboard) { d.Panels[1].Targets[0].Expr = "sum(" },
			`panel "one", A: 1:5: parse error: unclosed left parenthesis`,
		},
		"an unknown variable": {
			func(d *dashboard) {
				d.Panels[1].Targets[0].Expr = `rate(m{namespace=~"$namespace", job=~"$job"}[$window])`
			},
			`panel "one", A: 1:36: parse error: unexpected character in duration expression: '$'`,
		},
		"an unknown metric": {
			func(d *dashboard) { d.Panels[1].Targets[0].Expr = `unheard_of{namespace=~"$namespace", job=~"$job"}` },
			`panel "one", A: unheard_of is not documented`,
		},
		"a query of everything": {
			func(d *dashboard) { d.Panels[1].Targets[0].Expr = `m` },
			`panel "one", A: not every metric is restricted to the chosen namespace and job`,
		},
	} {
		t.Run(name, func(t *testing.T) {
			g := NewWithT(t)
			d := smallDashboard()
			g.Expect(checkDashboard(d, known)).To(BeEmpty())
			tc.spoil(&d)
			g.Expect(checkDashboard(d, known)).To(ConsistOf(tc.want))
		})
	}
}

// smallDashboard returns a valid dashboard with a row with two panels.
func smallDashboard() dashboard {
	chosen := func() *datasource { return &datasource{Type: "prometheus", UID: "${datasource}"} }
	of := func(id, x int, title string) panel {
		p := panel{
			ID: id, Type: "timeseries", Title: title, Description: "**High:** look at it.", Datasource: chosen(),
			GridPos: gridPos{H: 8, W: 12, X: x, Y: 1},
		}
		p.FieldConfig.Defaults.Unit = "s"
		p.Targets = []target{{RefID: "A", Datasource: chosen(), Expr: `m{namespace=~"$namespace", job=~"$job"}`, LegendFormat: "it"}}
		return p
	}
	d := dashboard{UID: "small", Title: "Small", Description: "Shows little."}
	d.Templating.List = []variable{
		{Name: "datasource", Type: "datasource"},
		{
			Name: "namespace", Type: "query", Datasource: chosen(), Query: []byte(`{"query": "label_values(m, namespace)"}`),
			IncludeAll: true, AllValue: ".*",
		},
		{
			Name: "job", Type: "query", Datasource: chosen(), Query: []byte(`{"query": "label_values(m{namespace=~\"$namespace\"}, job)"}`),
			IncludeAll: true, AllValue: ".*",
		},
	}
	d.Panels = []panel{{ID: 1, Type: "row", Title: "row", GridPos: gridPos{H: 1, W: 24}}, of(2, 0, "one"), of(3, 12, "two")}
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
