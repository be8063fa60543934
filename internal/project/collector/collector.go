// Package collector provides a prometheus.Collector that computes metrics about Projects at each scrape.
package collector

import (
	"context"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"sigs.k8s.io/controller-runtime/pkg/client"

	corev1beta1 "github.com/espalier-dev/espalier/api/core/v1beta1"
	"github.com/espalier-dev/espalier/internal/process"
)

// scrapePatience is the longest time that a scrape waits for the cache.
const scrapePatience = 2 * time.Second

// New returns a Collector of metrics about the Projects in a cache. It sends nothing before the cache is filled. collect
// must not change the Projects.
func New(
	cached client.Reader, collect func([]corev1beta1.Project, chan<- prometheus.Metric), descs ...*prometheus.Desc,
) prometheus.Collector {
	return process.Collector(func(out chan<- prometheus.Metric) {
		ctx, cancel := context.WithTimeout(context.Background(), scrapePatience)
		defer cancel()
		found := &corev1beta1.ProjectList{}
		if cached.List(ctx, found, client.UnsafeDisableDeepCopy) == nil {
			collect(found.Items, out)
		}
	}, descs...)
}
