package project

import (
	"context"
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

// The loops' own defaults, where the configuration says nothing.
const (
	defaultWorkers    = 5
	defaultLifetime   = 30
	defaultGrace      = 14
	defaultExpiration = 90
	defaultSyncPeriod = 12 * time.Hour
	defaultForecast   = 7 * config.Day
	// mostDays is what durations can hold, less some. Whoever writes a larger number means never, not that it overflows into
	// the past.
	mostDays = 100_000
)

// staleDemand does not ask for what counts as use: where that is not served, or may not be read, projects are kept.
func staleDemand(_ *config.ControllerManagerConfiguration) demand {
	return demand{access: []process.Requirement{{Kind: corev1.SchemeGroupVersion.WithKind("Namespace"), Verbs: []string{"get", "list", "watch"}}}}
}

// addStale adds the stale and activity loops.
func addStale(lifetime context.Context, p *parts) error {
	source := p.clusters.Source
	workers := ptr.Deref(p.cfg.Controllers.Project.ConcurrentSyncs, defaultWorkers)
	r := &stale.Reconciler{
		Client: source.GetClient(), Live: source.GetAPIReader(), Served: p.served, Clock: p.clusters.Clock,
		Rules: staleRules(p.cfg), Events: &stale.Events{Client: source.GetClient()},
	}
	r.Metrics = stale.NewMetrics(p.registry, source.GetClient(), p.clusters.Clock, r.Undecided)
	if err := r.SetupWithManager(lifetime, source, workers); err != nil {
		return fmt.Errorf("add controller %s: %w", stale.ControllerName, err)
	}
	active := &activity.Reconciler{Client: source.GetClient(), Clock: p.clusters.Clock}
	if err := active.SetupWithManager(source, p.served, workers); err != nil {
		return fmt.Errorf("add controller %s: %w", activity.ControllerName, err)
	}
	return nil
}

func staleRules(cfg *config.ControllerManagerConfiguration) stale.Rules {
	section, own := cfg.Controllers.Project, cfg.Espalier.Project
	days := func(number *int, otherwise int) time.Duration {
		return time.Duration(min(ptr.Deref(number, otherwise), mostDays)) * config.Day
	}
	deletion := stale.Deletion(own.StaleDeletion)
	if deletion == "" {
		deletion = stale.Delete
	}
	return stale.Rules{
		MinimumLifetime: days(section.MinimumLifetimeDays, defaultLifetime),
		GracePeriod:     days(section.StaleGracePeriodDays, defaultGrace),
		Expiration:      days(section.StaleExpirationTimeDays, defaultExpiration),
		SyncPeriod:      ptr.Deref(section.StaleSyncPeriod, metav1.Duration{Duration: defaultSyncPeriod}).Duration,
		Notice:          ptr.Deref(own.StaleDeletionNotice, metav1.Duration{}).Duration,
		Forecast:        ptr.Deref(own.StaleForecast, metav1.Duration{Duration: defaultForecast}).Duration,
		Deletion:        deletion,
		WithoutShoots:   own.StaleDeletionWithoutShoots,
	}
}
