package main

import (
	"bytes"
	"fmt"
	"maps"
	"net"
	"net/http"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/promhttp"
	dto "github.com/prometheus/client_model/go"
	"github.com/prometheus/common/expfmt"
	"github.com/prometheus/common/model"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/controller-runtime/pkg/manager"

	"github.com/espalier-dev/espalier/internal/config"
)

// metricsTimeout is the time that a child has to return its metrics.
const metricsTimeout = 5 * time.Second

// metricsServer serves, at /metrics, the metrics of this process and of the children. Metrics of children get the label "binary". The
// server leaves out a child that does not answer.
func metricsServer(at *config.Endpoint, own prometheus.Gatherer, children []*child) (*manager.Server, error) {
	all := make(prometheus.Gatherers, 0, 1+len(children))
	all = append(all, own)
	for _, each := range children {
		all = append(all, prometheus.GathererFunc(each.gather))
	}
	mux := http.NewServeMux()
	mux.Handle("/metrics", promhttp.HandlerFor(all, promhttp.HandlerOpts{ErrorHandling: promhttp.ContinueOnError}))
	listener, err := net.Listen("tcp", net.JoinHostPort(at.BindAddress, strconv.Itoa(at.Port)))
	if err != nil {
		return nil, fmt.Errorf("serve metrics: %w", err)
	}
	return &manager.Server{
		Name: "metrics", Listener: listener, Server: &http.Server{Handler: mux, ReadHeaderTimeout: metricsTimeout},
	}, nil
}

// gather returns the metrics of a child; none while it does not run.
func (c *child) gather() ([]*dto.MetricFamily, error) {
	at := c.serving.Load()
	if at == nil {
		return nil, nil
	}
	text, err := get(c.shared.lifetime, metricsTimeout, "http://"+at.metrics+"/metrics")
	if err != nil {
		return nil, fmt.Errorf("read metrics of %s: %w", c.name, err)
	}
	parser := expfmt.NewTextParser(model.UTF8Validation)
	families, err := parser.TextToMetricFamilies(bytes.NewReader(text))
	if err != nil {
		return nil, fmt.Errorf("parse metrics of %s: %w", c.name, err)
	}
	for _, family := range families {
		for _, metric := range family.Metric {
			metric.Label = append(metric.Label, &dto.LabelPair{Name: ptr.To("binary"), Value: ptr.To(c.name)})
			slices.SortFunc(metric.Label, func(a, b *dto.LabelPair) int { return strings.Compare(a.GetName(), b.GetName()) })
		}
	}
	return slices.Collect(maps.Values(families)), nil
}
