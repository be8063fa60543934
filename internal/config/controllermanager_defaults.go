package config

import (
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// Defaults of project-controller.
const (
	defaultGardenProbePort         = 2718
	defaultGardenMetricsPort       = 2719
	defaultProjectWebhookPort      = 2720
	defaultGardenLease             = "gardener-controller-manager-leader-election"
	defaultGardenNamespace         = "garden"
	defaultProjectControllerName   = "espalier-project-controller"
	defaultMinimumLifetimeDays     = 30
	defaultStaleGracePeriodDays    = 14
	defaultStaleExpirationTimeDays = 90
	defaultStaleSyncPeriod         = 12 * time.Hour
	defaultStaleForecast           = 7 * Day
)

// Default sets every field of c that is unset and has a default. It keeps all other fields. A second call changes nothing.
func (c *ControllerManagerConfiguration) Default() {
	defaultClientConnection(&c.GardenClientConnection)
	setIfZero(&c.LeaderElection.ResourceName, defaultGardenLease)
	setIfZero(&c.LeaderElection.ResourceNamespace, defaultGardenNamespace)
	defaultLeaderElection(&c.LeaderElection)
	setIfZero(&c.LogLevel, "info")
	setIfZero(&c.LogFormat, "json")
	defaultEndpoint(&c.Server.HealthProbes, defaultGardenProbePort)
	defaultEndpoint(&c.Server.Metrics, defaultGardenMetricsPort)
	defaultProject(&c.Controllers.Project)
	defaultEspalierProject(&c.Espalier.Project)
}

func defaultProject(c *ProjectController) {
	setIfNil(&c.ConcurrentSyncs, defaultWorkers)
	setIfNil(&c.MinimumLifetimeDays, defaultMinimumLifetimeDays)
	setIfNil(&c.StaleGracePeriodDays, defaultStaleGracePeriodDays)
	setIfNil(&c.StaleExpirationTimeDays, defaultStaleExpirationTimeDays)
	setIfNil(&c.StaleSyncPeriod, duration(defaultStaleSyncPeriod))
	for i := range c.Quotas {
		setIfNil(&c.Quotas[i].ProjectSelector, metav1.LabelSelector{})
	}
}

func defaultEspalierProject(c *EspalierProject) {
	setIfZero(&c.Webhooks.Port, defaultProjectWebhookPort)
	setIfNil(&c.Webhooks.ShutdownDelay, duration(defaultShutdownDelay))
	defaultSelfManagedWebhooks(c.Webhooks.SelfManaged, defaultProjectControllerName)
	setIfZero(&c.StaleDeletion, StaleDeletionDelete)
	setIfNil(&c.StaleForecast, duration(defaultStaleForecast))
}

// Process returns the part of c that every binary needs. It expects a defaulted configuration.
func (c *ControllerManagerConfiguration) Process() Process {
	return Process{
		Source: c.GardenClientConnection, LeaderElection: c.LeaderElection, Debugging: c.Debugging, LogLevel: c.LogLevel, LogFormat: c.LogFormat,
		Server:           Server{HealthProbes: c.Server.HealthProbes, Metrics: c.Server.Metrics},
		CacheSyncTimeout: defaultCacheSyncTimeout,
	}
}
