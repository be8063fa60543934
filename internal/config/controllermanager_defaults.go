package config

import (
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// Default sets every field of c that is unset and has a default. It keeps all other fields. A second call changes nothing.
func (c *ControllerManagerConfiguration) Default() {
	defaultClientConnection(&c.GardenClientConnection)
	setIfZero(&c.LeaderElection.ResourceName, "gardener-controller-manager-leader-election")
	setIfZero(&c.LeaderElection.ResourceNamespace, "garden")
	defaultLeaderElection(&c.LeaderElection)
	setIfZero(&c.LogLevel, "info")
	setIfZero(&c.LogFormat, "json")
	defaultEndpoint(&c.Server.HealthProbes, 2718)
	defaultEndpoint(&c.Server.Metrics, 2719)
	defaultProject(&c.Controllers.Project)
	defaultEspalierProject(&c.Espalier.Project)
}

func defaultProject(c *ProjectController) {
	setIfNil(&c.ConcurrentSyncs, defaultWorkers)
	setIfNil(&c.MinimumLifetimeDays, 30)
	setIfNil(&c.StaleGracePeriodDays, 14)
	setIfNil(&c.StaleExpirationTimeDays, 90)
	setIfNil(&c.StaleSyncPeriod, duration(12*time.Hour))
	for i := range c.Quotas {
		setIfNil(&c.Quotas[i].ProjectSelector, metav1.LabelSelector{})
	}
}

func defaultEspalierProject(c *EspalierProject) {
	setIfZero(&c.Webhooks.Port, 2720)
	setIfNil(&c.Webhooks.ShutdownDelay, duration(defaultShutdownDelay))
	defaultSelfManagedWebhooks(c.Webhooks.SelfManaged, "espalier-project-controller")
	setIfZero(&c.StaleDeletion, StaleDeletionDelete)
	setIfNil(&c.StaleForecast, duration(7*Day))
}

// Process returns the part of c that every binary needs. It expects a defaulted configuration.
func (c *ControllerManagerConfiguration) Process() Process {
	return Process{
		Source: c.GardenClientConnection, LeaderElection: c.LeaderElection, Debugging: c.Debugging, LogLevel: c.LogLevel, LogFormat: c.LogFormat,
		Server:           Server{HealthProbes: c.Server.HealthProbes, Metrics: c.Server.Metrics},
		CacheSyncTimeout: defaultCacheSyncTimeout,
	}
}
