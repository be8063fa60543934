package main

import (
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	. "github.com/onsi/gomega"
	perses "github.com/perses/spec/go/dashboard"
	"go.yaml.in/yaml/v3"
)

const dashboardsFolder = "../../deploy/observability/dashboards"

// generatedDashboards returns the dashboards that hack/dashboards writes for Plutono.
func generatedDashboards(t *testing.T) []dashboard {
	t.Helper()
	g := NewWithT(t)
	files, err := filepath.Glob(filepath.Join(dashboardsFolder, "*.json"))
	g.Expect(err).NotTo(HaveOccurred())
	g.Expect(files).NotTo(BeEmpty())
	var all []dashboard
	for _, each := range files {
		d, err := readDashboard(each)
		g.Expect(err).NotTo(HaveOccurred())
		all = append(all, d)
	}
	return all
}

var (
	// alertWord is a word of an advice that must be the name of an alert.
	alertWord = regexp.MustCompile(`\b(?:Espalier|Etcd|Garden|ApiServer|Project|Pod|TooMany)[A-Z]\w*`)
	inBold    = regexp.MustCompile(`\*\*.+\*\*`)
)

// Each query parses and uses metrics that are documented, and each panel says which values are bad.
func TestGeneratedDashboards(t *testing.T) {
	documented, alerts := documentedMetrics(t), namesOf(alertsIn(t, ruleFiles...))
	uids := map[string]bool{}
	for _, d := range generatedDashboards(t) {
		t.Run(d.Title, func(t *testing.T) {
			g := NewWithT(t)
			g.Expect(uids).NotTo(HaveKey(d.UID))
			uids[d.UID] = true
			covered := map[string]string{}
			for _, p := range d.all() {
				for x := p.GridPos.X; x < p.GridPos.X+p.GridPos.W; x++ {
					for y := p.GridPos.Y; y < p.GridPos.Y+p.GridPos.H; y++ {
						cell := fmt.Sprint(x, " ", y)
						g.Expect(covered).NotTo(HaveKey(cell), "panel %q covers another one", p.Title)
						covered[cell] = p.Title
					}
				}
				g.Expect(p.GridPos.X+p.GridPos.W).To(BeNumerically("<=", 24), p.Title)
				if p.Type == "row" {
					continue
				}
				g.Expect(p.Description).To(MatchRegexp(inBold.String()), "panel %q does not say which values are bad", p.Title)
				for _, name := range alertWord.FindAllString(p.Description, -1) {
					g.Expect(slices.Contains(alerts, name)).To(BeTrue(), "panel %q names the alert %s", p.Title, name)
				}
				g.Expect(p.FieldConfig.Defaults.Unit).NotTo(BeEmpty(), p.Title)
				g.Expect(p.Targets).NotTo(BeEmpty(), p.Title)
				for _, each := range p.Targets {
					names, err := metricsOf(substitute(each.Expr, d.substitutions()))
					g.Expect(err).NotTo(HaveOccurred(), p.Title)
					if len(d.Templating.List) > 0 {
						g.Expect(strings.Count(each.Expr, `namespace=~"$namespace", job=~"$job"`)).
							To(Equal(len(names)), "panel %q has metrics that are not restricted to the chosen namespace and job", p.Title)
					}
					for _, name := range names {
						g.Expect(documented(name)).To(BeTrue(), "panel %q uses %s, which is not documented", p.Title, name)
					}
				}
			}
		})
	}
}

// The types of Perses accept each dashboard, and know all of its fields: nothing is missing after decoding and encoding.
func TestPersesKnowsAllFieldsOfDashboards(t *testing.T) {
	g := NewWithT(t)
	files, err := filepath.Glob(filepath.Join(dashboardsFolder, "*.perses.yaml"))
	g.Expect(err).NotTo(HaveOccurred())
	g.Expect(files).To(HaveLen(len(generatedDashboards(t))))
	for _, each := range files {
		content, err := os.ReadFile(each)
		g.Expect(err).NotTo(HaveOccurred())
		var object struct {
			Spec struct {
				Config map[string]any `yaml:"config"`
			} `yaml:"spec"`
		}
		g.Expect(yaml.Unmarshal(content, &object)).To(Succeed())
		written, err := json.Marshal(object.Spec.Config)
		g.Expect(err).NotTo(HaveOccurred())
		var decoded perses.Spec
		g.Expect(json.Unmarshal(written, &decoded)).To(Succeed(), each)
		again, err := json.Marshal(decoded)
		g.Expect(err).NotTo(HaveOccurred())
		g.Expect(again).To(MatchJSON(written), each)
	}
}

var panelName = regexp.MustCompile(`\*([^*]+): ([^*:]+)\*`)

// The page about symptoms names panels and alerts that exist.
func TestPageAboutSymptomsNamesPanelsAndAlerts(t *testing.T) {
	g := NewWithT(t)
	page, err := os.ReadFile("../../docs/what-to-look-at.md")
	g.Expect(err).NotTo(HaveOccurred())
	panels, alerts := map[string]bool{}, namesOf(alertsIn(t, ruleFiles...))
	for _, d := range generatedDashboards(t) {
		for _, p := range d.all() {
			panels[d.Title+": "+p.Title] = true
		}
	}
	symptoms := 0
	for line := range strings.Lines(string(page)) {
		cells := strings.Split(strings.Trim(strings.TrimSpace(line), "|"), "|")
		names := panelName.FindAllStringSubmatch(line, -1)
		if len(cells) != 3 || len(names) == 0 {
			continue
		}
		symptoms++
		for _, each := range names {
			g.Expect(panels).To(HaveKey(each[1]+": "+each[2]), line)
		}
		if alert := strings.TrimSpace(cells[2]); alert != "" {
			g.Expect(alerts).To(ContainElement(alert))
		}
	}
	g.Expect(symptoms).To(BeNumerically(">", 20))
}
