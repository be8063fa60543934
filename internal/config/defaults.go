package config

import (
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/ptr"
)

// Defaults for the other field if only one client limit is set. If both are unset, there is no limit.
const (
	defaultQPS   = 100
	defaultBurst = 130
)

const (
	defaultWorkers = 5
	// defaultSets is higher than defaultWorkers: the objects of a ManagedResource are applied wave by wave, so a small one has few requests
	// in flight.
	defaultSets            = 20
	defaultHealthProbePort = 8081
	defaultMetricsPort     = 8080
	defaultWebhookPort     = 9449

	defaultCacheSyncTimeout = 2 * time.Minute
)

// Default sets every field of c that is unset and has a default. It keeps all other fields. In a section with the field enabled, defaults
// are set only if it is true. A second call changes nothing.
func (c *ResourceManagerConfiguration) Default() {
	defaultClientConnection(&c.SourceClientConnection)
	if c.TargetClientConnection != nil {
		defaultClientConnection(c.TargetClientConnection)
	}
	defaultLeaderElection(&c.LeaderElection)
	defaultServer(&c.Server)
	setIfZero(&c.LogLevel, "info")
	setIfZero(&c.LogFormat, "json")
	defaultControllers(&c.Controllers)
	defaultWebhooks(&c.Webhooks)
	defaultEspalier(&c.Espalier)
}

func defaultClientConnection(c *ClientConnection) {
	if c.QPS != 0 || c.Burst != 0 {
		setIfZero(&c.QPS, defaultQPS)
		setIfZero(&c.Burst, defaultBurst)
	}
	setIfNil(&c.CacheResyncPeriod, duration(24*time.Hour))
}

func defaultLeaderElection(c *LeaderElection) {
	setIfNil(&c.LeaderElect, true)
	setIfZero(&c.LeaseDuration, duration(15*time.Second))
	setIfZero(&c.RenewDeadline, duration(10*time.Second))
	setIfZero(&c.RetryPeriod, duration(2*time.Second))
	setIfZero(&c.ResourceLock, "leases")
	setIfZero(&c.ResourceName, "gardener-resource-manager")
}

func defaultServer(c *Server) {
	setIfZero(&c.Webhooks.Port, defaultWebhookPort)
	setIfNil(&c.HealthProbes, Endpoint{})
	setIfZero(&c.HealthProbes.Port, defaultHealthProbePort)
	setIfNil(&c.Metrics, Endpoint{})
	setIfZero(&c.Metrics.Port, defaultMetricsPort)
}

func defaultControllers(c *Controllers) {
	setIfNil(&c.ClusterID, "")
	setIfNil(&c.ResourceClass, "resources")
	setIfNil(&c.CacheSyncTimeout, duration(defaultCacheSyncTimeout))

	setIfNil(&c.ManagedResource.ConcurrentSyncs, defaultSets)
	setIfNil(&c.ManagedResource.SyncPeriod, duration(time.Minute))
	setIfNil(&c.ManagedResource.AlwaysUpdate, false)
	setIfNil(&c.ManagedResource.ManagedByLabelValue, "gardener")

	setIfNil(&c.Health.ConcurrentSyncs, defaultWorkers)
	setIfNil(&c.Health.SyncPeriod, duration(time.Minute))
	setIfNil(&c.Secret.ConcurrentSyncs, defaultWorkers)

	if c.GarbageCollector.Enabled {
		setIfNil(&c.GarbageCollector.SyncPeriod, duration(time.Hour))
	}
	if c.KubeletCSRApprover.Enabled {
		setIfNil(&c.KubeletCSRApprover.ConcurrentSyncs, 1)
	}
	if c.NetworkPolicy.Enabled {
		setIfNil(&c.NetworkPolicy.ConcurrentSyncs, defaultWorkers)
	}
	if c.Node.Enabled {
		setIfNil(&c.Node.ConcurrentSyncs, defaultWorkers)
		setIfNil(&c.Node.Backoff, duration(10*time.Second))
	}
	if c.TokenInvalidator.Enabled {
		setIfNil(&c.TokenInvalidator.ConcurrentSyncs, defaultWorkers)
	}
	if c.TokenRequestor.Enabled {
		setIfNil(&c.TokenRequestor.ConcurrentSyncs, defaultWorkers)
	}
}

func defaultWebhooks(c *Webhooks) {
	if c.PodSchedulerName.Enabled {
		setIfNil(&c.PodSchedulerName.SchedulerName, "default-scheduler")
	}
	if c.ProjectedTokenMount.Enabled {
		setIfNil(&c.ProjectedTokenMount.ExpirationSeconds, 43200)
	}
}

func defaultEspalier(c *Espalier) {
	setIfNil(&c.ManagedResource.AuditPeriod, duration(time.Hour))
	setIfNil(&c.ManagedResource.DeletionWaveTimeout, duration(30*time.Second))
	setIfNil(&c.ManagedResource.MaxConcurrentRequests, 32)
	setIfNil(&c.ManagedResource.MaxDecompressedBytes, 64<<20)
	setIfNil(&c.ManagedResource.Kstatus, false)
	setIfNil(&c.ManagedResource.GarbageCollectionReportOnly, false)
	if c.ManagedResource.Namespaces != nil {
		setIfNil(&c.ManagedResource.Namespaces.ClusterScoped, true)
	}
	defaultEspalierToken(&c.Token)
	defaultEspalierCSRApprover(&c.CSRApprover)
	defaultEspalierWebhooks(&c.Webhooks)
	defaultEspalierNetworkPolicy(&c.NetworkPolicy)
	defaultEspalierNode(&c.Node)
}

func setIfNil[T any](field **T, value T) {
	if *field == nil {
		*field = ptr.To(value)
	}
}

func setIfZero[T comparable](field *T, value T) {
	var zero T
	if *field == zero {
		*field = value
	}
}

func duration(d time.Duration) metav1.Duration { return metav1.Duration{Duration: d} }
