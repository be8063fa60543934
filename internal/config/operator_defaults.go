package config

import (
	"time"

	"k8s.io/utils/ptr"
)

// DefaultImageRepository is the first part of the names of all images as they are shipped. Users replace it by their registry.
const DefaultImageRepository = "espalier.local"

// Default sets every field of c that is unset and has a default. It keeps all other fields. A second call changes nothing.
func (c *OperatorConfiguration) Default() {
	for _, connection := range []*ClientConnection{&c.RuntimeClientConnection, &c.VirtualClientConnection} {
		setIfZero(&connection.QPS, defaultQPS)
		setIfZero(&connection.Burst, defaultBurst)
		defaultClientConnection(connection)
	}
	setIfZero(&c.LeaderElection.ResourceName, "gardener-operator-leader-election")
	setIfZero(&c.LeaderElection.ResourceNamespace, "garden")
	defaultLeaderElection(&c.LeaderElection)
	setIfZero(&c.LogLevel, "info")
	setIfZero(&c.LogFormat, "json")
	setIfZero(&c.Server.Webhooks.Port, 2750)
	defaultEndpoint(&c.Server.HealthProbes, 2751)
	defaultEndpoint(&c.Server.Metrics, 2752)
	setIfNil(&c.Controllers.Garden.ConcurrentSyncs, 1)
	setIfNil(&c.Controllers.Garden.SyncPeriod, duration(time.Hour))
	setIfNil(&c.Controllers.Garden.ETCDConfig, defaultETCDConfig())
	setIfNil(&c.Controllers.GardenCare.SyncPeriod, duration(time.Minute))
	setIfNil(&c.Controllers.Extension.ConcurrentSyncs, 1)
	setIfNil(&c.Controllers.ExtensionCare.SyncPeriod, duration(time.Minute))
	setIfNil(&c.Controllers.ExtensionRequiredRuntime.ConcurrentSyncs, 1)
	setIfNil(&c.Controllers.ExtensionRequiredVirtual.ConcurrentSyncs, 1)
	setIfZero(&c.Espalier.Garden.Images.Repository, DefaultImageRepository)
	setIfNil(&c.Espalier.Garden.Backup.Interval, duration(Day))
	setIfNil(&c.Espalier.Garden.Backup.Keep, 30)
	setIfNil(&c.Espalier.Garden.Rotation.CertificateAuthorities.MaxAge, duration(8*365*Day))
	setIfNil(&c.Espalier.Garden.Rotation.OverdueAfter, duration(30*Day))
	defaultGardenWebhooks(&c.Espalier.Garden.Webhooks, c.Server.Webhooks.TLS)
}

func defaultETCDConfig() ETCDConfig {
	return ETCDConfig{
		ETCDController:      &ETCDWorkers{Workers: ptr.To[int64](50)},
		CustodianController: &ETCDWorkers{Workers: ptr.To[int64](10)},
		BackupCompactionController: &BackupCompactionController{
			Workers: ptr.To[int64](3), EnableBackupCompaction: ptr.To(false), EventsThreshold: ptr.To[int64](1_000_000),
			MetricsScrapeWaitDuration: ptr.To(duration(time.Minute)),
		},
	}
}

// defaultGardenWebhooks makes the process issue its own certificate if the configuration file names no certificate. A configuration file
// for Gardener's operator never names a certificate, because that operator always issues its own.
func defaultGardenWebhooks(c *EspalierGardenWebhooks, tls TLSServer) {
	setIfNil(&c.ShutdownDelay, duration(defaultShutdownDelay))
	if tls.ServerCertDir == "" {
		setIfNil(&c.SelfManaged, EspalierSelfManagedWebhooks{})
	}
	if c.SelfManaged != nil {
		setIfZero(&c.SelfManaged.ConfigurationName, "gardener-operator")
	}
	defaultSelfManagedWebhooks(c.SelfManaged, "espalier-garden-operator")
}
