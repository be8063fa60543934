package project

import (
	"fmt"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/ptr"

	"github.com/espalier-dev/espalier/internal/config"
	"github.com/espalier-dev/espalier/internal/process"
	"github.com/espalier-dev/espalier/internal/project/activity"
	"github.com/espalier-dev/espalier/internal/project/stale"
)

// staleAccess does not include the kinds that count as use: if they are not served, or must not be read, projects are kept.
func staleAccess() []process.Requirement {
	return []process.Requirement{{Kind: corev1.SchemeGroupVersion.WithKind("Namespace"), Verbs: []string{"get", "list", "watch"}}}
}

// addStale adds the stale and activity loops.
func addStale(p *parts) error {
	source := p.clusters.Source
	workers := ptr.Deref(p.cfg.Controllers.Project.ConcurrentSyncs, 0)
	r := &stale.Reconciler{
		Client: source.GetClient(), Live: source.GetAPIReader(), Served: p.served, Clock: p.clusters.Clock, Rules: staleRules(p.cfg),
		Registry: p.registry,
	}
	if err := r.SetupWithManager(source, workers); err != nil {
		return fmt.Errorf("add controller %s: %w", stale.ControllerName, err)
	}
	active := &activity.Reconciler{Client: source.GetClient(), Clock: p.clusters.Clock}
	if err := active.SetupWithManager(source, p.served, workers); err != nil {
		return fmt.Errorf("add controller %s: %w", activity.ControllerName, err)
	}
	return nil
}

// staleRules expects a defaulted configuration. It limits the numbers of days: a larger one means never, and must not overflow into the
// past.
func staleRules(cfg *config.ControllerManagerConfiguration) stale.Rules {
	section, own := cfg.Controllers.Project, cfg.Espalier.Project
	days := func(number *int) time.Duration { return time.Duration(min(*number, config.MaxDays)) * config.Day }
	return stale.Rules{
		MinimumLifetime: days(section.MinimumLifetimeDays),
		GracePeriod:     days(section.StaleGracePeriodDays),
		Expiration:      days(section.StaleExpirationTimeDays),
		SyncPeriod:      section.StaleSyncPeriod.Duration,
		Notice:          ptr.Deref(own.StaleDeletionNotice, metav1.Duration{}).Duration,
		Forecast:        own.StaleForecast.Duration,
		Deletion:        stale.Deletion(own.StaleDeletion),
		WithoutShoots:   own.StaleDeletionWithoutShoots,
	}
}
