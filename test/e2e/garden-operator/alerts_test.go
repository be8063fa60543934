//go:build e2e

package gardenoperator_test

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"net/url"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"time"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"sigs.k8s.io/yaml"

	"github.com/espalier-dev/espalier/deploy"
	"github.com/espalier-dev/espalier/test/e2e/cluster"
)

// The copies of the alerts that the specs create have this label. They are evaluated every five seconds, and fire after twenty.
const copied = "e2e"

// within is how long it may take until the copy of an alert fires.
const within = 5 * time.Minute

// alarm is a fault for which an alert must fire.
type alarm struct {
	fault, alert string
	// inject causes the fault, and registers the function that removes it. It is nil if repeat causes the fault, which is called until the
	// alert fires.
	inject func(context.Context, localGarden)
	repeat func(context.Context, localGarden) error
	// object is a text that the output of a command in the runbook must contain.
	object string
	// virtual is true if the commands of the runbook are for the virtual cluster.
	virtual bool
}

// shortened are the thresholds of times and numbers that the copies of alerts have in the place of others.
var shortened = map[string][2]string{
	"PodFrequentlyRestarting": {"> 5", "> 2"},
}

var _ = Describe("alerts of a Garden", Ordered, ContinueOnFailure, Label("garden", "observability", "alerts"), func() {
	var (
		l     localGarden
		fired []string
	)

	BeforeAll(func(ctx SpecContext) {
		requireObservability(ctx)
		l = requireLocalGarden(ctx)
		scrapeOften(ctx)
		names := copyAlerts(ctx)
		Eventually(ctx, known).WithTimeout(patience).Should(ContainElements(names))
		DeferCleanup(func() { AddReportEntry("alerts that fired", strings.Join(fired, "\n")) })
	}, NodeTimeout(4*patience))

	for _, f := range alarms() {
		It("fires "+f.alert+": "+f.fault, func(ctx SpecContext) {
			Eventually(ctx, l.well).WithTimeout(patience).Should(Succeed(), "before the fault")
			before, err := firing(ctx)
			Expect(err).NotTo(HaveOccurred())
			begin := time.Now()
			if f.inject != nil {
				f.inject(ctx, l)
			}
			var now map[string]map[string]string
			Eventually(ctx, func(ctx context.Context) (map[string]map[string]string, error) {
				var failed error
				if f.repeat != nil {
					failed = f.repeat(ctx, l)
				}
				now, err = firing(ctx)
				return now, errors.Join(failed, err)
			}).WithTimeout(within).WithPolling(3 * time.Second).Should(HaveKey(f.alert))
			after := time.Since(begin).Round(time.Second)

			section, err := runbook(l.machine.Root, f.alert)
			Expect(err).NotTo(HaveOccurred())
			others := slices.DeleteFunc(slices.Sorted(maps.Keys(now)), func(name string) bool {
				return before[name] != nil || name == f.alert || slices.Contains(alertName.FindAllString(section, -1), name)
			})
			Expect(others).To(BeEmpty(), "alerts that the runbook of %s does not name", f.alert)
			kubeconfig := c.Kubeconfig
			if f.virtual {
				kubeconfig = l.kubeconfig
			}
			command, err := naming(ctx, section, f.object, kubeconfig, now[f.alert])
			Expect(err).NotTo(HaveOccurred())
			fired = append(fired, fmt.Sprintf("| %s | %#q | %d | %#q |", f.fault, f.alert, int(after.Seconds()), command))
		}, SpecTimeout(3*patience))
	}
})

// scrapeOften makes the Prometheus of the garden scrape every ten seconds, so that a fault is seen soon.
func scrapeOften(ctx context.Context) {
	GinkgoHelper()
	ignoreSet(ctx, "prometheus-garden")
	_, err := c.Kubectl(ctx, "-n", namespace, "patch", "prometheus.monitoring.coreos.com", "garden", "--type=merge",
		`--patch={"spec":{"scrapeInterval":"10s","scrapeTimeout":"10s"}}`)
	Expect(err).NotTo(HaveOccurred())
}

// ignoreSet makes the resource manager leave the objects of a ManagedResource as they are, until the end of the spec.
func ignoreSet(ctx context.Context, name string) {
	GinkgoHelper()
	annotate := func(ctx context.Context, value string) error {
		_, err := c.Kubectl(ctx, "-n", namespace, "annotate", "--overwrite", "managedresource", name, "resources.gardener.cloud/ignore"+value)
		return err
	}
	Expect(annotate(ctx, "=true")).To(Succeed())
	DeferCleanup(func(ctx SpecContext) { Expect(annotate(ctx, "-")).To(Succeed()) })
}

// copyAlerts creates a copy of each alert, and returns their names.
func copyAlerts(ctx context.Context) []string {
	GinkgoHelper()
	files, err := fs.Glob(deploy.Files, "observability/*.prometheusrule.yaml")
	Expect(err).NotTo(HaveOccurred())
	var names []string
	for _, each := range files {
		content, err := fs.ReadFile(deploy.Files, each)
		Expect(err).NotTo(HaveOccurred())
		object := &unstructured.Unstructured{}
		Expect(yaml.Unmarshal(content, &object.Object)).To(Succeed())
		groups, _, err := unstructured.NestedSlice(object.Object, "spec", "groups")
		Expect(err).NotTo(HaveOccurred())
		copies, found := copiesOf(groups)
		if len(found) == 0 {
			continue
		}
		names = append(names, found...)
		Expect(unstructured.SetNestedSlice(object.Object, copies, "spec", "groups")).To(Succeed())
		object.SetName(copied + "-" + object.GetName())
		object.SetNamespace(namespace)
		Expect(c.Client.Create(ctx, object)).To(Succeed())
		DeferCleanup(func(ctx SpecContext) { Expect(c.Client.Delete(ctx, object)).To(Succeed()) })
	}
	return names
}

// copiesOf returns copies of the groups with alerts, and the names of the alerts.
func copiesOf(groups []any) (copies []any, names []string) {
	for _, each := range groups {
		group, _ := each.(map[string]any)
		all, _ := group["rules"].([]any)
		var rules []any
		for _, each := range all {
			rule, _ := each.(map[string]any)
			name, isAlert := rule["alert"].(string)
			if !isAlert {
				continue
			}
			names = append(names, name)
			if short, found := shortened[name]; found {
				expression, _ := rule["expr"].(string)
				rule["expr"] = strings.Replace(expression, short[0], short[1], 1)
				Expect(rule["expr"]).NotTo(Equal(expression), name)
			}
			rule["for"] = "20s"
			Expect(unstructured.SetNestedField(rule, "true", "labels", copied)).To(Succeed())
			rules = append(rules, rule)
		}
		if len(rules) > 0 {
			copies = append(copies, map[string]any{"name": fmt.Sprint(copied, "-", group["name"]), "interval": "5s", "rules": rules})
		}
	}
	return copies, names
}

// known returns the names of the copies that Prometheus has evaluated.
func known(ctx context.Context) ([]string, error) {
	data := struct {
		Groups []struct {
			Name  string
			Rules []struct{ Name, Health string }
		}
	}{}
	if err := ask(ctx, "prometheus-garden:80", "/api/v1/rules", nil, &data); err != nil {
		return nil, err
	}
	var names []string
	for _, group := range data.Groups {
		for _, each := range group.Rules {
			if strings.HasPrefix(group.Name, copied+"-") && each.Health == "ok" {
				names = append(names, each.Name)
			}
		}
	}
	return names, nil
}

// firing returns the labels of the copies that fire, by the names of the alerts.
func firing(ctx context.Context) (map[string]map[string]string, error) {
	data := struct {
		Result []struct{ Metric map[string]string }
	}{}
	query := url.Values{"query": {`ALERTS{alertstate="firing", ` + copied + `="true"}`}}
	if err := ask(ctx, "prometheus-garden:80", "/api/v1/query", query, &data); err != nil {
		return nil, err
	}
	all := map[string]map[string]string{}
	for _, each := range data.Result {
		all[each.Metric["alertname"]] = each.Metric
	}
	return all, nil
}

var (
	alertName = regexp.MustCompile(`[A-Z][A-Za-z]+`)
	// command is a command of a runbook: in a block, or in a sentence.
	command     = regexp.MustCompile("(?s)```sh\n(.+?)```|`(kubectl .+?)`")
	placeholder = regexp.MustCompile(`<\w+>`)
)

// runbook returns the section about an alert.
func runbook(root, alert string) (string, error) {
	page, err := os.ReadFile(filepath.Join(root, "docs", "reference", "alerts.md"))
	if err != nil {
		return "", err
	}
	_, section, found := strings.Cut(string(page), "\n## "+alert+"\n")
	if !found {
		return "", errors.New("the page about alerts has no section about " + alert)
	}
	section, _, _ = strings.Cut(section, "\n## ")
	return section, nil
}

// naming returns the first command of a section whose output contains a text. It replaces placeholders by the labels of the alert.
func naming(ctx context.Context, section, text, kubeconfig string, labels map[string]string) (string, error) {
	kubectl, err := cluster.FindKubectl(ctx)
	if err != nil {
		return "", err
	}
	failures := []error{fmt.Errorf("no command of the runbook names %q", text)}
	for _, each := range command.FindAllStringSubmatch(section, -1) {
		line := strings.TrimSpace(each[1] + strings.ReplaceAll(each[2], "\n", " "))
		for name, value := range labels {
			line = strings.ReplaceAll(line, "<"+name+">", value)
		}
		if placeholder.MatchString(line) {
			continue
		}
		run := exec.CommandContext(ctx, "bash", "-c", line)
		run.Env = append(os.Environ(), "KUBECONFIG="+kubeconfig, "PATH="+filepath.Dir(kubectl)+":"+os.Getenv("PATH"))
		output, err := run.CombinedOutput()
		if strings.Contains(string(output), text) {
			return line, nil
		}
		failures = append(failures, fmt.Errorf("%s: %w: %.300s", line, err, output))
	}
	return "", errors.Join(failures...)
}
