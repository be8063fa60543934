package prometheus_test

import (
	"encoding/json"
	"regexp"
	"slices"
	"strings"
	"testing"

	. "github.com/onsi/gomega"
	"k8s.io/apimachinery/pkg/api/resource"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/espalier-dev/espalier/internal/garden/component/alertmanager"
	"github.com/espalier-dev/espalier/internal/garden/component/kubestatemetrics"
	"github.com/espalier-dev/espalier/internal/garden/component/metricsexporter"
	"github.com/espalier-dev/espalier/internal/garden/component/prometheus"
	"github.com/espalier-dev/espalier/internal/garden/goldentest"
	"github.com/espalier-dev/espalier/internal/garden/values"
)

var credentials = prometheus.Credentials{
	Kubernetes: "ca-bundle-1", Gardener: "ca-gardener-bundle-1", ETCD: "ca-etcd-bundle-1", ETCDClient: "etcd-client-1",
}

func TestObjectsAreAsInTheGoldenFiles(t *testing.T) {
	g := NewWithT(t)
	shipped := func(v *values.Values) {
		v.ClusterIdentity, v.Ingress.Domains = "landscape", []string{"ingress.example.com"}
	}
	large := func(v *values.Values) {
		v.MinimumVolumeSize, v.SkipComponents = ptr.To(resource.MustParse("300Gi")), []string{"alertmanager-garden"}
	}
	seeds := prometheus.Seeds{
		Hosts: []string{"p-seed.one.example.com", "p-seed.two.example.com"},
		Data:  map[string][]byte{"username": []byte("admin"), "password": []byte("p"), "auth": []byte("admin:h")},
	}
	with := func(change func(*values.Values)) values.Values {
		return goldentest.Values(t, func(*values.Values) any { return &struct{}{} }, "{}", shipped, change)
	}
	none := func(*values.Values) {}
	variants := map[string][]client.Object{"virtual": prometheus.VirtualObjects()}
	for name, tc := range map[string]struct {
		change func(*values.Values)
		seeds  prometheus.Seeds
	}{"garden": {none, prometheus.Seeds{}}, "garden-seeds": {none, seeds}, "garden-large-volumes": {large, prometheus.Seeds{}}} {
		objects, err := prometheus.Objects(with(tc.change), credentials, tc.seeds)
		g.Expect(err).NotTo(HaveOccurred())
		variants[name] = append(objects.Direct, withoutRules(objects.Set)...)
	}
	for name, change := range map[string]func(*values.Values){"longterm": none, "longterm-large-volumes": large} {
		objects, err := prometheus.LongtermObjects(with(change))
		g.Expect(err).NotTo(HaveOccurred())
		variants[name] = withoutRules(objects)
	}
	goldentest.Compare(t, "garden", variants)
}

// withoutRules returns the objects without the alerts, which are in deploy/observability.
func withoutRules(objects []client.Object) []client.Object {
	var others []client.Object
	for _, each := range objects {
		if each.GetObjectKind().GroupVersionKind().Kind != "PrometheusRule" {
			others = append(others, each)
		}
	}
	return others
}

// Both instances record whether they do their work, each by an object of its own.
func TestEachInstanceRecordsItsHealth(t *testing.T) {
	g := NewWithT(t)
	v := goldentest.Values(t, func(*values.Values) any { return &struct{}{} }, "{}")
	longterm, err := prometheus.LongtermObjects(v)
	g.Expect(err).NotTo(HaveOccurred())
	garden, err := prometheus.Rules(v)
	g.Expect(err).NotTo(HaveOccurred())
	var health []string
	for _, each := range slices.Concat(longterm, garden) {
		if text, err := json.Marshal(each); err == nil && strings.Contains(string(text), `"record":"healthcheck:up"`) {
			health = append(health, each.GetName()+" "+each.GetLabels()["prometheus"])
		}
	}
	g.Expect(health).To(ConsistOf("espalier-health garden", "espalier-health-longterm longterm"))
}

func TestHostsOfSeeds(t *testing.T) {
	seed := func(spec map[string]any) unstructured.Unstructured {
		return unstructured.Unstructured{Object: map[string]any{"spec": spec}}
	}
	NewWithT(t).Expect(prometheus.SeedHosts([]unstructured.Unstructured{
		seed(map[string]any{"ingress": map[string]any{"domain": "b.example.com"}}), seed(map[string]any{}),
		seed(map[string]any{"ingress": map[string]any{"domain": "a.example.com"}}),
	})).To(Equal([]string{"p-seed.a.example.com", "p-seed.b.example.com"}))
}

// An alert about a metric that no scrape configuration keeps never fires.
func TestMetricsOfAlertsAreKept(t *testing.T) {
	g := NewWithT(t)
	v := goldentest.Values(t, func(*values.Values) any { return &struct{}{} }, "{}", func(v *values.Values) { v.Domains = []string{"d"} })
	own, err := prometheus.Objects(v, credentials, prometheus.Seeds{Hosts: []string{"p-seed.example.com"}})
	g.Expect(err).NotTo(HaveOccurred())
	states, err := kubestatemetrics.Objects(v)
	g.Expect(err).NotTo(HaveOccurred())
	exporter, err := metricsexporter.Objects(v, "")
	g.Expect(err).NotTo(HaveOccurred())
	alerts, err := alertmanager.Objects(v)
	g.Expect(err).NotTo(HaveOccurred())
	kept := []*regexp.Regexp{regexp.MustCompile("^(up|probe_success)$")}
	families := regexp.MustCompile(`\b(?:espalier|etcd|etcdbr|apiserver|alertmanager|prometheus|kube|garden|probe|process|go|rest_client|` +
		`workqueue|controller_runtime|leader_election)_[a-z0-9_]+\b`)
	texts := regexp.MustCompile(`"(?:[^"\\]|\\.)*"`) // of labels
	names := map[string]bool{}
	for _, each := range slices.Concat(own.Set, states, exporter.Set, alerts) {
		text, err := json.Marshal(each)
		g.Expect(err).NotTo(HaveOccurred())
		var decoded any
		g.Expect(json.Unmarshal(text, &decoded)).To(Succeed())
		eachMap(decoded, func(m map[string]any) {
			if labels, isRelabeling := m["sourceLabels"].([]any); isRelabeling && labels[0] == "__name__" {
				pattern, _ := m["regex"].(string)
				kept = append(kept, regexp.MustCompile(pattern))
			}
			if expression, isRule := m["expr"].(string); isRule {
				for _, name := range families.FindAllString(texts.ReplaceAllString(expression, ""), -1) {
					names[name] = true
				}
			}
		})
	}
	g.Expect(len(names)).To(BeNumerically(">", 40))
	for name := range names {
		g.Expect(slices.ContainsFunc(kept, func(r *regexp.Regexp) bool { return r.MatchString(name) })).To(BeTrue(), name)
	}
}

// eachMap calls a function for each map in decoded JSON.
func eachMap(of any, call func(map[string]any)) {
	switch typed := of.(type) {
	case map[string]any:
		call(typed)
		for _, each := range typed {
			eachMap(each, call)
		}
	case []any:
		for _, each := range typed {
			eachMap(each, call)
		}
	}
}
