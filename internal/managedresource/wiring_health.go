package managedresource

import (
	"fmt"

	"github.com/prometheus/client_golang/prometheus"
	"k8s.io/utils/ptr"

	"github.com/espalier-dev/espalier/internal/apply"
	"github.com/espalier-dev/espalier/internal/config"
	"github.com/espalier-dev/espalier/internal/managedresource/applier"
	"github.com/espalier-dev/espalier/internal/managedresource/health"
	"github.com/espalier-dev/espalier/internal/process"
)

// newHealth returns the controller that judges the health of the applied objects.
func newHealth(clusters *process.Clusters, cfg *config.ResourceManagerConfiguration, target *apply.Target, sight *sight,
	ledger *applier.Ledger, verdicts *health.Verdicts, registry prometheus.Registerer,
) *health.Reconciler {
	return &health.Reconciler{
		Source: clusters.Source.GetClient(), Target: target, TargetLive: clusters.Target.GetAPIReader(),
		Watcher: sight.watcher, Pods: sight.pods, Whole: sight.whole, Ledger: ledger, Verdicts: verdicts,
		Metrics: health.NewMetrics(registry, clusters.Source.GetCache(), ledger.Responsible), Clock: clusters.Clock,
		Kstatus: ptr.Deref(cfg.Espalier.ManagedResource.Kstatus, false), SyncPeriod: cfg.Controllers.Health.SyncPeriod.Duration,
	}
}

func addHealth(clusters *process.Clusters, cfg *config.ResourceManagerConfiguration, r *health.Reconciler) error {
	if err := r.SetupWithManager(clusters.Source, ptr.Deref(cfg.Controllers.Health.ConcurrentSyncs, 0), cfg.Process().
		CacheSyncTimeout); err != nil {
		return fmt.Errorf("add controller %s: %w", health.ControllerName, err)
	}
	return nil
}
