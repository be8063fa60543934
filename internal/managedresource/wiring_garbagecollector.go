package managedresource

import (
	"fmt"

	"github.com/prometheus/client_golang/prometheus"
	"k8s.io/client-go/metadata"
	"k8s.io/utils/ptr"

	"github.com/espalier-dev/espalier/internal/config"
	"github.com/espalier-dev/espalier/internal/managedresource/garbagecollector"
	"github.com/espalier-dev/espalier/internal/process"
)

// addGarbageCollector adds the garbage collector, if it is enabled.
func addGarbageCollector(clusters *process.Clusters, cfg *config.ResourceManagerConfiguration, registry prometheus.Registerer) error {
	if !cfg.Controllers.GarbageCollector.Enabled {
		return nil
	}
	client, err := metadata.NewForConfigAndClient(clusters.TargetConfig, clusters.TargetHTTPClient)
	if err != nil {
		return fmt.Errorf("create metadata client of target cluster: %w", err)
	}
	c := garbageCollector(cfg)
	c.Client, c.Mapper, c.Sets, c.SameCluster = client, clusters.TargetMapper, clusters.Source.GetClient(), clusters.Same.Assume
	if same, known := clusters.Same.Answer(); unseenSets(same || !known, cfg) {
		c.SetsBeyond = clusters.Target.GetAPIReader()
	}
	c.Events = &garbagecollector.Events{Recorder: clusters.Target.GetEventRecorder("managedresource-controller")}
	c.Metrics, c.Clock = garbagecollector.NewMetrics(registry), clusters.Clock
	if err := c.SetupWithManager(clusters.Source); err != nil {
		return fmt.Errorf("add controller %s: %w", garbagecollector.ControllerName, err)
	}
	return nil
}

// unseenSets reports whether the target may have ManagedResources that are not in the cache of the source.
func unseenSets(same bool, cfg *config.ResourceManagerConfiguration) bool {
	return same && len(cfg.Process().Source.Namespaces) > 0
}

// garbageCollector returns a collector with the settings of the configuration.
func garbageCollector(cfg *config.ResourceManagerConfiguration) *garbagecollector.Collector {
	own := cfg.Espalier.ManagedResource
	return &garbagecollector.Collector{
		Finalizer:  class(cfg).Finalizer(),
		Namespaces: targetNamespaces(cfg),
		MinimumAge: garbagecollector.DefaultMinimumAge,
		SyncPeriod: cfg.Controllers.GarbageCollector.SyncPeriod.Duration,
		Parallel:   ptr.Deref(own.MaxConcurrentRequests, 0),
		ReportOnly: ptr.Deref(own.GarbageCollectionReportOnly, false),
	}
}
