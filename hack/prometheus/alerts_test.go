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
	rulesFile          = "../../deploy/observability/managedresource-controller.rules.yaml"
	prometheusRuleFile = "../../deploy/observability/managedresource-controller.prometheusrule.yaml"
	unitTestsFile      = "alerts.promtool.yaml"
	alertsPage         = "../../docs/reference/alerts.md"
	alertsURL          = "https://github.com/espalier-dev/espalier/blob/main/docs/reference/alerts.md#"
)

var update = flag.Bool("update", false, "write the PrometheusRule anew")

func realAlerts(t *testing.T) []rulefmt.Rule {
	t.Helper()
	alerts, err := readAlerts(filepath.FromSlash(rulesFile))
	NewWithT(t).Expect(err).NotTo(HaveOccurred())
	return alerts
}

func namesOf(alerts []rulefmt.Rule) []string {
	var names []string
	for _, alert := range alerts {
		names = append(names, alert.Alert)
	}
	return names
}

// checkAlerts returns one sentence for each mistake in the alerts.
func checkAlerts(alerts []rulefmt.Rule, documented func(string) bool) []string {
	var broken []string
	for _, alert := range alerts {
		say := func(what string) { broken = append(broken, alert.Alert+" "+what) }
		if !strings.HasPrefix(alert.Alert, "EspalierManagedResource") {
			say("does not say in its name whose it is")
		}
		if !slices.Contains([]string{"critical", "warning", "info"}, alert.Labels["severity"]) {
			say("has no severity")
		}
		for _, annotation := range []string{"summary", "description"} {
			if !strings.HasSuffix(alert.Annotations[annotation], ".") {
				say("has no sentence as " + annotation)
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
		if slices.ContainsFunc(names, func(name string) bool { return !strings.HasPrefix(name, "espalier_") }) &&
			!slices.Contains(names, "espalier_managedresource_watches") && !slices.Contains(names, "espalier_managedresource_garbage_found") {
			say("is about every process that serves such metrics, not only about ours")
		}
	}
	return broken
}

func TestAlerts(t *testing.T) {
	NewWithT(t).Expect(checkAlerts(realAlerts(t), documentedMetrics(t))).To(BeEmpty())
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

// For each alert, promtool tests with given series that the alert fires, and that it does not fire.
func TestEveryAlertHasUnitTests(t *testing.T) {
	g := NewWithT(t)
	var file struct {
		Tests []struct {
			Name  string `yaml:"name"`
			Cases []struct {
				Alert string           `yaml:"alertname"`
				Want  []map[string]any `yaml:"exp_alerts"`
			} `yaml:"alert_rule_test"`
		} `yaml:"tests"`
	}
	content, err := os.ReadFile(unitTestsFile)
	g.Expect(err).NotTo(HaveOccurred())
	g.Expect(yaml.Unmarshal(content, &file)).To(Succeed())
	fires, quiet := map[string]bool{}, map[string]bool{}
	for _, test := range file.Tests {
		g.Expect(test.Name).NotTo(BeEmpty())
		for _, each := range test.Cases {
			if len(each.Want) > 0 {
				fires[each.Alert] = true
			} else {
				quiet[each.Alert] = true
			}
		}
	}
	for _, name := range namesOf(realAlerts(t)) {
		g.Expect(fires).To(HaveKey(name), "no test sees it firing")
		g.Expect(quiet).To(HaveKey(name), "no test sees it quiet")
	}
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
	}
	g.Expect(titles).To(Equal(namesOf(realAlerts(t))))
}

// The PrometheusRule object contains the same groups.
func TestPrometheusRuleHoldsTheSameAlerts(t *testing.T) {
	g := NewWithT(t)
	content, err := os.ReadFile(filepath.FromSlash(rulesFile))
	g.Expect(err).NotTo(HaveOccurred())
	want, err := prometheusRule(string(content))
	g.Expect(err).NotTo(HaveOccurred())
	if *update {
		g.Expect(os.WriteFile(filepath.FromSlash(prometheusRuleFile), []byte(want), 0o600)).To(Succeed())
	}
	got, err := os.ReadFile(filepath.FromSlash(prometheusRuleFile))
	g.Expect(err).NotTo(HaveOccurred())
	g.Expect(string(got)).To(Equal(want), "run: make alerts-update")

	var rules, object map[string]any
	g.Expect(yaml.Unmarshal(content, &rules)).To(Succeed())
	g.Expect(yaml.Unmarshal(got, &object)).To(Succeed())
	g.Expect(object["apiVersion"]).To(Equal("monitoring.coreos.com/v1"))
	g.Expect(object["kind"]).To(Equal("PrometheusRule"))
	g.Expect(object["spec"]).To(Equal(map[string]any{"groups": rules["groups"]}))
}

// prometheusRule returns the rules indented below the field spec, line by line, so that they look as in the rule file. It omits comments.
func prometheusRule(rules string) (string, error) {
	_, groups, found := strings.Cut(rules, "\ngroups:\n")
	if !found {
		return "", fmt.Errorf("read rules: there is no line %q", "groups:")
	}
	var text strings.Builder
	text.WriteString(`# Code generated from managedresource-controller.rules.yaml by "make alerts-update". DO NOT EDIT.
apiVersion: monitoring.coreos.com/v1
kind: PrometheusRule
metadata:
  name: espalier-managedresource-controller
  labels:
    app.kubernetes.io/name: managedresource-controller
    app.kubernetes.io/part-of: espalier
spec:
  groups:
`)
	for line := range strings.Lines(groups) {
		if line != "\n" {
			line = "  " + line
		}
		text.WriteString(line)
	}
	return text.String(), nil
}
