package config

import (
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/ptr"
)

// Default of QPS if only Burst is set, and default of Burst if only QPS is set. If both are unset, there is no limit.
const (
	defaultQPS   = 100
	defaultBurst = 130
)

const (
	defaultWorkers          = 5
	defaultCacheSyncTimeout = 2 * time.Minute
)

// Default sets every field of c that is unset and has a default. It keeps all other fields. In a section that has the field enabled, it
// sets defaults only if enabled is true. A second call changes nothing.
func (c *ResourceManagerConfiguration) Default() {
	defaultClientConnection(&c.SourceClientConnection)
	if c.TargetClientConnection != nil {
		defaultClientConnection(c.TargetClientConnection)
	}
	defaultLeaderElection(&c.LeaderElection)
	setIfZero(&c.Server.Webhooks.Port, 9449)
	defaultEndpoint(&c.Server.HealthProbes, 8081)
	defaultEndpoint(&c.Server.Metrics, 8080)
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

func defaultEndpoint(c **Endpoint, port int) {
	setIfNil(c, Endpoint{})
	setIfZero(&(*c).Port, port)
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
