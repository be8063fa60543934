package main

import (
	"flag"
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	. "github.com/onsi/gomega"
	"github.com/prometheus/prometheus/model/rulefmt"
	"go.yaml.in/yaml/v3"
)

const (
	rulesFolder = "../../deploy/observability"
	alertsPage  = "../../docs/reference/alerts.md"
	alertsURL   = "https://github.com/espalier-dev/espalier/blob/main/docs/reference/alerts.md#"
)

// ruleFiles are the names of the rule files without their extension, in the order of the page about alerts.
var ruleFiles = []string{managedResources, "garden", "binaries"}

const managedResources = "managedresource-controller"

// recordFiles are the names of the files with recording rules.
var recordFiles = []string{"health", "records"}

// gardeners are the names of alerts for a garden that Gardener has, too. Routes and silences of users rely on them.
var gardeners = regexp.MustCompile("^(ApiServer|GardenerApiServer|Dashboard|DiscoveryServer|GardenerControllerManager|GardenerMetricsExporter|" +
	"GardenKubeStateMetrics|VictoriaLogs|EtcdMain|EtcdEvents)Down$|^(MissingGardenMetrics|GardenConditionStatusNotTrue|" +
	"GardenLastOperationInErrorState|GardenLastOperationStuckProcessing|ProjectStuckInDeletion|PodFrequentlyRestarting|TooManyAuditlogFailures|" +
	"Etcd(Main|Events)NoLeader|EtcdDbSizeLimit(Approaching|Crossed)|Etcd(Delta|Full)BackupFailed|EtcdRestorationFailed|" +
	"VerticalPodAutoscalerCappedRecommendation|SeedFederationFailure|SeedConditionFailing|ApproachingSeedCapacity|ShootOutageOverall)$")

var update = flag.Bool("update", false, "write the PrometheusRules anew")

func alertsIn(t *testing.T, files ...string) []rulefmt.Rule {
	t.Helper()
	var all []rulefmt.Rule
	for _, each := range files {
		alerts, err := readAlerts(filepath.Join(rulesFolder, each+".rules.yaml"))
		NewWithT(t).Expect(err).NotTo(HaveOccurred())
		all = append(all, alerts...)
	}
	return all
}

// namesOf returns the names of alerts. An alert with several severities is one name.
func namesOf(alerts []rulefmt.Rule) []string {
	var names []string
	for _, alert := range alerts {
		names = append(names, alert.Alert)
	}
	return slices.Compact(names)
}

// hasWord reports whether a text has a word.
func hasWord(text, word string) bool {
	return regexp.MustCompile(`\b` + regexp.QuoteMeta(word) + `\b`).MatchString(text)
}

var labelUse = regexp.MustCompile(`\$labels\.(\w+)`)

// checkAlerts returns one sentence for each mistake in the alerts.
func checkAlerts(alerts []rulefmt.Rule, documented func(string) bool) []string {
	var broken []string
	for _, alert := range alerts {
		say := func(what string) { broken = append(broken, alert.Alert+" "+what) }
		if !strings.HasPrefix(alert.Alert, "Espalier") && !gardeners.MatchString(alert.Alert) {
			say("does not say in its name whose it is")
		}
		if !slices.Contains([]string{"critical", "warning", "info"}, alert.Labels["severity"]) {
			say("has no severity")
		}
		for _, annotation := range []string{"summary", "description"} {
			if !strings.HasSuffix(alert.Annotations[annotation], ".") {
				say("has no sentence as " + annotation)
			}
			for _, use := range labelUse.FindAllStringSubmatch(alert.Annotations[annotation], -1) {
				if !hasWord(alert.Expr, use[1]) {
					say("names the label " + use[1] + ", which its expression does not have")
				}
			}
		}
		if alert.Annotations["runbook_url"] != alertsURL+strings.ToLower(alert.Alert) {
			say("does not link to its section of the page")
		}
		names, err := metricsOf(alert.Expr)
		if err != nil {
			say(err.Error())
		}
		for _, name := range names {
			if !documented(name) {
				say(fmt.Sprintf("uses %s, which is not documented", name))
			}
		}
		if strings.HasPrefix(alert.Alert, "EspalierManagedResource") && slices.ContainsFunc(names, func(name string) bool { return !strings.HasPrefix(name, "espalier_") }) &&
			!slices.Contains(names, "espalier_managedresource_watches") && !slices.Contains(names, "espalier_managedresource_garbage_found") {
			say("is about every process that serves such metrics, not only about ours")
		}
	}
	return broken
}

func TestAlerts(t *testing.T) {
	g := NewWithT(t)
	g.Expect(checkAlerts(alertsIn(t, ruleFiles...), documentedMetrics(t))).To(BeEmpty())
	files, err := filepath.Glob(filepath.Join(rulesFolder, "*.rules.yaml"))
	g.Expect(err).NotTo(HaveOccurred())
	g.Expect(files).To(HaveLen(len(ruleFiles) + len(recordFiles)))
}

// Each record uses metrics that are documented, or recorded before, is documented itself, and promtool tests it with given series.
func TestRecords(t *testing.T) {
	g := NewWithT(t)
	documented, page := documentedMetrics(t), readFile(t, metricsPage)
	tests, recorded := readFile(t, "records.promtool.yaml"), map[string]bool{}
	for _, each := range alertsIn(t, recordFiles...) {
		g.Expect(each.Alert).To(BeEmpty())
		names, err := metricsOf(each.Expr)
		g.Expect(err).NotTo(HaveOccurred())
		for _, name := range names {
			g.Expect(documented(name) || recorded[name]).To(BeTrue(), "%s uses %s, which is not documented", each.Record, name)
		}
		recorded[each.Record] = true
		g.Expect(page).To(ContainSubstring("| `" + each.Record))
		g.Expect(tests).To(MatchRegexp(`expr: '` + each.Record + `'`))
	}
}

func readFile(t *testing.T, name string) string {
	t.Helper()
	content, err := os.ReadFile(filepath.FromSlash(name))
	NewWithT(t).Expect(err).NotTo(HaveOccurred())
	return string(content)
}

func TestCheckAlertsFindsWhatIsWrong(t *testing.T) {
	known := func(metric string) bool { return metric != "espalier_unheard_of" }
	for name, tc := range map[string]struct {
		spoil func(*rulefmt.Rule)
		want  string
	}{
		"a name of another kind": {
			func(r *rulefmt.Rule) { r.Alert = "A"; r.Annotations["runbook_url"] = alertsURL + "a" },
			"A does not say in its name whose it is",
		},
		"no severity": {func(r *rulefmt.Rule) { r.Labels = nil }, "EspalierManagedResourceX has no severity"},
		"no description": {
			func(r *rulefmt.Rule) { delete(r.Annotations, "description") },
			"EspalierManagedResourceX has no sentence as description",
		},
		"a label that the alert does not have": {
			func(r *rulefmt.Rule) { r.Annotations["summary"] = "{{ $labels.pod }}." },
			"EspalierManagedResourceX names the label pod, which its expression does not have",
		},
		"a link to nowhere": {
			func(r *rulefmt.Rule) { r.Annotations["runbook_url"] = alertsURL },
			"EspalierManagedResourceX does not link to its section of the page",
		},
		"an unknown metric": {
			func(r *rulefmt.Rule) { r.Expr = "espalier_unheard_of > 0" },
			"EspalierManagedResourceX uses espalier_unheard_of, which is not documented",
		},
		"a metric of every Go program": {
			func(r *rulefmt.Rule) { r.Expr = "go_goroutines > 0" },
			"EspalierManagedResourceX is about every process that serves such metrics, not only about ours",
		},
	} {
		t.Run(name, func(t *testing.T) {
			g := NewWithT(t)
			rule := rulefmt.Rule{
				Alert: "EspalierManagedResourceX", Expr: "espalier_m > 0", Labels: map[string]string{"severity": "info"},
				Annotations: map[string]string{"summary": "A.", "description": "B.", "runbook_url": alertsURL + "espaliermanagedresourcex"},
			}
			g.Expect(checkAlerts([]rulefmt.Rule{rule}, known)).To(BeEmpty())
			tc.spoil(&rule)
			g.Expect(checkAlerts([]rulefmt.Rule{rule}, known)).To(ConsistOf(tc.want))
		})
	}
}

// unitTests are the unit tests in a file of promtool.
type unitTests struct {
	Tests []struct {
		Name   string `yaml:"name"`
		Series []struct {
			Series string `yaml:"series"`
		} `yaml:"input_series"`
		// Cases compare all labels and annotations of an alert.
		Cases []struct {
			Alert string           `yaml:"alertname"`
			Want  []map[string]any `yaml:"exp_alerts"`
		} `yaml:"alert_rule_test"`
		// Queries ask for the series ALERTS, with all labels of an alert that fires.
		Queries []struct {
			Expr string           `yaml:"expr"`
			Want []map[string]any `yaml:"exp_samples"`
		} `yaml:"promql_expr_test"`
	} `yaml:"tests"`
}

var firing = regexp.MustCompile(`^ALERTS\{alertname="(\w+)", severity="\w+", alertstate="firing"\}$`)

// tested counts the tests in which each alert fires, and those in which it does not. A test without one series of a metric of the alert
// shows nothing, and does not count.
func tested(content []byte, alerts []rulefmt.Rule, fires, quiet map[string]int) error {
	var file unitTests
	if err := yaml.Unmarshal(content, &file); err != nil {
		return err
	}
	metrics := map[string][]string{}
	for _, alert := range alerts {
		names, err := metricsOf(alert.Expr)
		if err != nil {
			return err
		}
		metrics[alert.Alert] = append(metrics[alert.Alert], names...)
	}
	for _, test := range file.Tests {
		count := func(alert string, wanted int) {
			shown := len(metrics[alert]) == 0
			for _, each := range test.Series {
				name, _, _ := strings.Cut(each.Series, "{")
				shown = shown || slices.Contains(metrics[alert], name)
			}
			switch {
			case wanted > 0:
				fires[alert]++
			case shown:
				quiet[alert]++
			}
		}
		for _, each := range test.Cases {
			count(each.Alert, len(each.Want))
		}
		for _, each := range test.Queries {
			if match := firing.FindStringSubmatch(each.Expr); match != nil {
				count(match[1], len(each.Want))
			}
		}
	}
	return nil
}

// For each alert, and each of its severities, promtool tests with given series that the alert fires, and that it does not fire.
func TestEveryAlertHasUnitTests(t *testing.T) {
	g := NewWithT(t)
	files, err := filepath.Glob("*.promtool.yaml")
	g.Expect(err).NotTo(HaveOccurred())
	alerts := alertsIn(t, ruleFiles...)
	fires, quiet := map[string]int{}, map[string]int{}
	for _, each := range files {
		content, err := os.ReadFile(each)
		g.Expect(err).NotTo(HaveOccurred())
		g.Expect(tested(content, alerts, fires, quiet)).To(Succeed(), each)
	}
	severities := map[string]int{}
	for _, alert := range alerts {
		severities[alert.Alert]++
	}
	for name, count := range severities {
		g.Expect(fires[name]).To(BeNumerically(">=", count), "no test sees %s firing", name)
		if name != watchdog {
			g.Expect(quiet[name]).To(BeNumerically(">=", count), "no test sees %s quiet", name)
		}
	}
}

// watchdog is the alert that always fires.
const watchdog = "EspalierWatchdog"

func TestATestWithoutSeriesOfTheAlertDoesNotCount(t *testing.T) {
	g := NewWithT(t)
	fires, quiet := map[string]int{}, map[string]int{}
	g.Expect(tested([]byte(`tests:
- input_series: [{series: 'a{b="c"}', values: '1'}]
  promql_expr_test:
  - {expr: 'ALERTS{alertname="X", severity="info", alertstate="firing"}', exp_samples: [{value: 1}]}
  - {expr: 'ALERTS{alertname="X", severity="info", alertstate="firing"}'}
  - {expr: 'ALERTS{alertname="Y", severity="info", alertstate="firing"}'}
  - {expr: 'ALERTS{alertname="X"}'}
`), []rulefmt.Rule{{Alert: "X", Expr: "a > 0"}, {Alert: "Y", Expr: "b > 0"}}, fires, quiet)).To(Succeed())
	g.Expect(fires).To(Equal(map[string]int{"X": 1}))
	g.Expect(quiet).To(Equal(map[string]int{"X": 1}))
}

var section = regexp.MustCompile(`(?m)^## (.+)$`)

// The page has one section for each alert, in the same order, with all information that an operator needs.
func TestAlertsAreDocumented(t *testing.T) {
	g := NewWithT(t)
	content, err := os.ReadFile(filepath.FromSlash(alertsPage))
	g.Expect(err).NotTo(HaveOccurred())
	page := string(content)
	starts := section.FindAllStringSubmatchIndex(page, -1)
	var titles []string
	for i, start := range starts {
		title, end := page[start[2]:start[3]], len(page)
		if i+1 < len(starts) {
			end = starts[i+1][0]
		}
		titles = append(titles, title)
		for _, part := range []string{"**Meaning.** ", "**Look.** ", "**Remedy.** "} {
			g.Expect(page[start[0]:end]).To(ContainSubstring("\n"+part), "section "+title)
		}
		if !strings.HasPrefix(title, "EspalierManagedResource") { // one command for all of these is at the top of the page
			g.Expect(page[start[0]:end]).To(ContainSubstring("kubectl "), "section %s has no command that names the object", title)
		}
	}
	g.Expect(titles).To(Equal(namesOf(alertsIn(t, ruleFiles...))))
}

// The PrometheusRule objects contain the same groups.
func TestPrometheusRulesHoldTheSameAlerts(t *testing.T) {
	for _, name := range slices.Concat(ruleFiles, recordFiles) {
		t.Run(name, func(t *testing.T) {
			g := NewWithT(t)
			content, err := os.ReadFile(filepath.Join(rulesFolder, name+".rules.yaml"))
			g.Expect(err).NotTo(HaveOccurred())
			want, err := prometheusRule(name, string(content))
			g.Expect(err).NotTo(HaveOccurred())
			file := filepath.Join(rulesFolder, name+".prometheusrule.yaml")
			if *update {
				g.Expect(os.WriteFile(file, []byte(want), 0o600)).To(Succeed())
			}
			got, err := os.ReadFile(file)
			g.Expect(err).NotTo(HaveOccurred())
			g.Expect(string(got)).To(Equal(want), "run: make alerts-update")

			var rules, object map[string]any
			g.Expect(yaml.Unmarshal(content, &rules)).To(Succeed())
			g.Expect(yaml.Unmarshal(got, &object)).To(Succeed())
			g.Expect(object["apiVersion"]).To(Equal("monitoring.coreos.com/v1"))
			g.Expect(object["kind"]).To(Equal("PrometheusRule"))
			g.Expect(object["spec"]).To(Equal(map[string]any{"groups": rules["groups"]}))
		})
	}
}

// prometheusRule returns the rules indented below the field spec, line by line, so that they look as in the rule file. It omits comments.
func prometheusRule(name, rules string) (string, error) {
	_, groups, found := strings.Cut(rules, "\ngroups:\n")
	if !found {
		return "", fmt.Errorf("read rules: there is no line %q", "groups:")
	}
	var text strings.Builder
	fmt.Fprintf(&text, `# Code generated from %[1]s.rules.yaml by "make alerts-update". DO NOT EDIT.
apiVersion: monitoring.coreos.com/v1
kind: PrometheusRule
metadata:
  name: espalier-%[1]s
  labels:
    app.kubernetes.io/name: %[1]s
    app.kubernetes.io/part-of: espalier
    prometheus: garden
spec:
  groups:
`, name)
	for line := range strings.Lines(groups) {
		if line != "\n" {
			line = "  " + line
		}
		text.WriteString(line)
	}
	return text.String(), nil
}
