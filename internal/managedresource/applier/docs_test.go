package applier_test

import (
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	. "github.com/onsi/gomega"
	"github.com/prometheus/client_golang/prometheus"

	"github.com/espalier-dev/espalier/internal/managedresource/applier"
	"github.com/espalier-dev/espalier/internal/managedresource/garbagecollector"
	"github.com/espalier-dev/espalier/internal/managedresource/health"
)

// documentedMetric is a metric as the documentation or the code describes it.
type documentedMetric struct{ Kind, Labels, Help string }

// recordingRegisterer records the registered collectors, since a registry does not return vectors without samples.
type recordingRegisterer struct {
	prometheus.Registerer
	collectors []prometheus.Collector
}

func (r *recordingRegisterer) MustRegister(collectors ...prometheus.Collector) {
	r.Registerer.MustRegister(collectors...)
	r.collectors = append(r.collectors, collectors...)
}

var description = regexp.MustCompile(`^Desc\{fqName: "([^"]+)", help: "([^"]*)", unit: "[^"]*", constLabels: \{\}, variableLabels: ` +
	`\{([^}]*)\}`)

func registeredMetrics(t *testing.T) map[string]documentedMetric {
	t.Helper()
	registry := &recordingRegisterer{Registerer: prometheus.NewPedanticRegistry()}
	applier.NewMetrics(registry, func() int { return 0 }, func() int { return 0 })
	garbagecollector.NewMetrics(registry)
	health.NewMetrics(registry, nil, nil)
	metrics := map[string]documentedMetric{}
	for _, each := range registry.collectors {
		descriptions := make(chan *prometheus.Desc, 10)
		each.Describe(descriptions)
		close(descriptions)
		for desc := range descriptions {
			parts := description.FindStringSubmatch(desc.String())
			NewWithT(t).Expect(parts).To(HaveLen(4), desc.String())
			metrics[parts[1]] = documentedMetric{Kind: kindOfMetric(each), Labels: parts[3], Help: parts[2]}
		}
	}
	return metrics
}

// kindOfMetric checks the narrowest interface first: a gauge has all methods of a counter.
func kindOfMetric(collector prometheus.Collector) string {
	switch collector.(type) {
	case *prometheus.CounterVec:
		return "counter"
	case prometheus.Histogram, *prometheus.HistogramVec:
		return "histogram"
	case *prometheus.GaugeVec, prometheus.Gauge:
		return "gauge"
	case prometheus.Counter:
		return "counter"
	}
	return "gauge" // a function
}

// documentedMetrics reads the rows of the tables in the documentation that describe metrics of ours.
func documentedMetrics(t *testing.T) map[string]documentedMetric {
	t.Helper()
	content, err := os.ReadFile(filepath.FromSlash("../../../docs/reference/metrics.md"))
	NewWithT(t).Expect(err).NotTo(HaveOccurred())
	metrics := map[string]documentedMetric{}
	for line := range strings.Lines(string(content)) {
		if !strings.HasPrefix(line, "| `espalier_managedresource_") {
			continue
		}
		cells := strings.Split(strings.Trim(strings.TrimSpace(line), "|"), "|")
		NewWithT(t).Expect(cells).To(HaveLen(4), line)
		for i := range cells {
			cells[i] = strings.ReplaceAll(strings.TrimSpace(cells[i]), "`", "")
		}
		NewWithT(t).Expect(metrics).NotTo(HaveKey(cells[0]), "described twice")
		metrics[cells[0]] = documentedMetric{Kind: cells[1], Labels: strings.ReplaceAll(cells[2], ", ", ","), Help: cells[3]}
	}
	return metrics
}

// The meaning in the documentation begins with the help text of the metric, and may be longer.
func TestMetricsAreDocumented(t *testing.T) {
	g := NewWithT(t)
	registered, documented := registeredMetrics(t), documentedMetrics(t)
	g.Expect(registered).NotTo(BeEmpty())
	for name, metric := range registered {
		g.Expect(metric.Help).NotTo(BeEmpty(), name+" has no help text")
		if page, found := documented[name]; found && strings.HasPrefix(page.Help, metric.Help) {
			page.Help = metric.Help
			documented[name] = page
		}
	}
	g.Expect(documented).To(BeComparableTo(registered))
}
