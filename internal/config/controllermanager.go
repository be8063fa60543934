package config

import (
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// The group version and kind that a configuration file of project-controller must name.
const (
	ControllerManagerAPIVersion = "controllermanager.config.gardener.cloud/v1alpha1"
	ControllerManagerKind       = "ControllerManagerConfiguration"
)

// ControllerManagerConfiguration is the file that project-controller takes. It ignores the sections of Gardener's
// controller-manager that are about something else. ControllerManager decodes and defaults it.
type ControllerManagerConfiguration struct {
	metav1.TypeMeta `json:",inline"`

	// GardenClientConnection leads to the garden cluster. It cannot be restricted to namespaces.
	GardenClientConnection ClientConnection `json:"gardenClientConnection,omitempty"`
	// LeaderElection decides which of several replicas works. Defaults: ResourceNamespace garden, ResourceName
	// gardener-controller-manager-leader-election, to which the process appends its name.
	LeaderElection LeaderElection `json:"leaderElection,omitempty"`
	// LogLevel is debug, info (default) or error.
	LogLevel string `json:"logLevel,omitempty"`
	// LogFormat is json (default) or text.
	LogFormat string `json:"logFormat,omitempty"`
	// Server says where health probes and metrics are served.
	Server ControllerManagerServer `json:"server,omitempty"`
	// Debugging switches profiling on.
	Debugging Debugging `json:"debugging,omitempty"`
	// FeatureGates are accepted and not looked at.
	FeatureGates map[string]bool `json:"featureGates,omitempty"`
	// Controllers has one section per controller.
	Controllers ControllerManagerControllers `json:"controllers,omitempty"`
	// Espalier holds the settings that Gardener's schema does not know.
	Espalier EspalierControllerManager `json:"espalier,omitempty"`
}

// ControllerManagerServer says where a controller-manager listens.
type ControllerManagerServer struct {
	// HealthProbes serves /healthz and /readyz; default port 2718.
	HealthProbes *Endpoint `json:"healthProbes,omitempty"`
	// Metrics serves /metrics; default port 2719.
	Metrics *Endpoint `json:"metrics,omitempty"`
}

// ControllerManagerControllers has one section per controller.
type ControllerManagerControllers struct {
	// Project is about Projects.
	Project ProjectController `json:"project,omitempty"`
}

// ProjectController is about Projects. A day is 24 hours.
type ProjectController struct {
	// ConcurrentSyncs is the number of workers of each loop; at least 1, default 5.
	ConcurrentSyncs *int `json:"concurrentSyncs,omitempty"`
	// MinimumLifetimeDays is how old a project must be, and how long ago its last activity, before it can be stale; at least
	// 0, default 30.
	MinimumLifetimeDays *int `json:"minimumLifetimeDays,omitempty"`
	// StaleGracePeriodDays is how long a project is stale before it gets a date for its deletion; at least 0, default 14.
	StaleGracePeriodDays *int `json:"staleGracePeriodDays,omitempty"`
	// StaleExpirationTimeDays is how long after it became stale a project is deleted; at least 0, default 90.
	StaleExpirationTimeDays *int `json:"staleExpirationTimeDays,omitempty"`
	// StaleSyncPeriod is how often projects are checked; at least 100ms, default 12h.
	StaleSyncPeriod *metav1.Duration `json:"staleSyncPeriod,omitempty"`
	// Quotas are the ResourceQuotas of projects. The first that selects a project counts.
	Quotas []ProjectQuota `json:"quotas,omitempty"`
}

// ProjectQuota is a ResourceQuota for some projects.
type ProjectQuota struct {
	// Config is the ResourceQuota: labels, annotations and spec.hard count. Required.
	Config *corev1.ResourceQuota `json:"config,omitempty"`
	// ProjectSelector selects projects by their labels; default all.
	ProjectSelector *metav1.LabelSelector `json:"projectSelector,omitempty"`
}

// EspalierControllerManager holds the settings that Gardener's schema does not know.
type EspalierControllerManager struct {
	// Project tunes project-controller.
	Project EspalierProject `json:"project,omitempty"`
}

// EspalierProject tunes project-controller.
type EspalierProject struct {
	// Webhooks says where webhooks are served.
	Webhooks EspalierProjectWebhooks `json:"webhooks,omitempty"`
	// StaleDeletion is what happens to a project whose date of deletion has come: Delete (default), DryRun, which says in an
	// Event and a metric what would be deleted, or Off.
	StaleDeletion string `json:"staleDeletion,omitempty"`
	// StaleDeletionWithoutShoots lets projects be deleted although the API server serves no Shoots. Default false.
	StaleDeletionWithoutShoots bool `json:"staleDeletionWithoutShoots,omitempty"`
	// StaleForecast is how long before a project becomes stale, and before it is deleted, an Event tells of it; 0 for never,
	// default 7 days (168h).
	StaleForecast *metav1.Duration `json:"staleForecast,omitempty"`
	// StaleDeletionNotice is for how long the deletion of a project must have been announced before it happens, even if its date
	// is over: because deletion was off or rehearsed, nobody could tell, or no process was running. At most StaleForecast;
	// 0 (default): who is due goes.
	StaleDeletionNotice *metav1.Duration `json:"staleDeletionNotice,omitempty"`
	// MaxProjectsPerCreator is how many projects one user may have created; at least 1; nil (default) for any number.
	MaxProjectsPerCreator *int `json:"maxProjectsPerCreator,omitempty"`
	// MembershipExpiry makes the annotation project.espalier.dev/membership-expiry count. Default false.
	MembershipExpiry bool `json:"membershipExpiry,omitempty"`
}

// What EspalierProject.StaleDeletion may be.
const (
	StaleDeletionDelete = "Delete"
	StaleDeletionDryRun = "DryRun"
	StaleDeletionOff    = "Off"
)

// EspalierProjectWebhooks says where the webhooks of project-controller are served.
type EspalierProjectWebhooks struct {
	// BindAddress is a host or IP address; empty: all interfaces.
	BindAddress string `json:"bindAddress,omitempty"`
	// Port is a TCP port, apart from those of metrics and probes; default 2720.
	Port int `json:"port,omitempty"`
	// TLS names the serving certificate. Without one, and without SelfManaged, no webhooks are served.
	TLS EspalierProjectTLS `json:"tls,omitempty"`
	// ShutdownDelay is how long requests are still taken after the process was asked to end; at least 0, at most 4s, default 2s.
	ShutdownDelay *metav1.Duration `json:"shutdownDelay,omitempty"`
	// SelfManaged makes the process issue its own certificates and keep its own webhook configurations. Nil: certificates
	// come from TLS, and configurations are somebody else's. Its names default to espalier-project-controller; only flavor
	// standalone, and no ExcludedNamespaces.
	SelfManaged *EspalierSelfManagedWebhooks `json:"selfManaged,omitempty"`
}

// EspalierProjectTLS names a serving certificate: by a folder or by two files.
type EspalierProjectTLS struct {
	// ServerCertDir is the folder that holds tls.crt and tls.key.
	ServerCertDir string `json:"serverCertDir,omitempty"`
	// ServerCertPath and ServerKeyPath are the files of the certificate, with what leads to its authority, and of its key. Both
	// or none; none with ServerCertDir.
	ServerCertPath string `json:"serverCertPath,omitempty"`
	ServerKeyPath  string `json:"serverKeyPath,omitempty"`
}

// Named tells whether there is a certificate.
func (c EspalierProjectTLS) Named() bool { return c.ServerCertDir != "" || c.ServerCertPath != "" }

// Served tells whether the webhooks are served: whether there is a certificate to serve with.
func (c EspalierProjectWebhooks) Served() bool { return c.TLS.Named() || c.SelfManaged != nil }

// Day is what the configuration counts in.
const Day = 24 * time.Hour
