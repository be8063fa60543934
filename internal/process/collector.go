package process

import "github.com/prometheus/client_golang/prometheus"

type collector struct {
	descs   []*prometheus.Desc
	collect func(chan<- prometheus.Metric)
}

// Collector returns a Collector of the described metrics. At each scrape, collect sends all or some of them. Unlike
// prometheus.CollectorFunc, this Collector describes its metrics: if another Collector has a metric of the same name, the registration
// fails instead of each scrape.
func Collector(collect func(chan<- prometheus.Metric), descs ...*prometheus.Desc) prometheus.Collector {
	return &collector{descs: descs, collect: collect}
}

// Describe implements prometheus.Collector.
func (c *collector) Describe(out chan<- *prometheus.Desc) {
	for _, each := range c.descs {
		out <- each
	}
}

// Collect implements prometheus.Collector.
func (c *collector) Collect(out chan<- prometheus.Metric) { c.collect(out) }
