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

// ControllerManagerConfiguration is the configuration file of project-controller. project-controller ignores the sections for other
// controllers of Gardener's controller-manager. The function ControllerManager decodes the file and sets the defaults.
type ControllerManagerConfiguration struct {
	metav1.TypeMeta `json:",inline"`

	// GardenClientConnection is the connection to the garden cluster. It cannot be restricted to namespaces.
	GardenClientConnection ClientConnection `json:"gardenClientConnection,omitempty"`
	// LeaderElection configures which of several replicas is active. Defaults: ResourceNamespace garden, ResourceName
	// gardener-controller-manager-leader-election, to which the process appends its name.
	LeaderElection LeaderElection `json:"leaderElection,omitempty"`
	// LogLevel is one of debug, info and error: info logs all changes of a cluster, debug also why nothing was changed.
	LogLevel string `json:"logLevel,omitempty"`
	// LogFormat is one of json and text.
	LogFormat string `json:"logFormat,omitempty"`

	Server    ControllerManagerServer `json:"server,omitempty"`
	Debugging Debugging               `json:"debugging,omitempty"`

	// FeatureGates are accepted and ignored.
	FeatureGates map[string]bool `json:"featureGates,omitempty"`

	Controllers ControllerManagerControllers `json:"controllers,omitempty"`
	Espalier    EspalierControllerManager    `json:"espalier,omitempty"`
}

// ControllerManagerServer configures where a controller-manager listens.
type ControllerManagerServer struct {
	// HealthProbes serves /healthz and /readyz; default port 2718.
	HealthProbes *Endpoint `json:"healthProbes,omitempty"`
	// Metrics serves /metrics, at another port than HealthProbes; default port 2719.
	Metrics *Endpoint `json:"metrics,omitempty"`
}

// ControllerManagerControllers has one section per controller.
type ControllerManagerControllers struct {
	Project ProjectController `json:"project,omitempty"`
}

// ProjectController configures the controller of Projects. A day has 24 hours.
type ProjectController struct {
	// ConcurrentSyncs is the number of workers of each controller loop; at least 1.
	ConcurrentSyncs *int `json:"concurrentSyncs,omitempty"`
	// MinimumLifetimeDays is the minimum age of a project, and the minimum time since its last activity, before it can be stale; 0 to
	// 100000.
	MinimumLifetimeDays *int `json:"minimumLifetimeDays,omitempty"`
	// StaleGracePeriodDays is how long a project is stale before its deletion is scheduled; 0 to 100000.
	StaleGracePeriodDays *int `json:"staleGracePeriodDays,omitempty"`
	// StaleExpirationTimeDays is the time between becoming stale and deletion; 0 to 100000.
	StaleExpirationTimeDays *int `json:"staleExpirationTimeDays,omitempty"`
	// StaleSyncPeriod is how often projects are checked, in addition to checks after changes; at least 100ms.
	StaleSyncPeriod *metav1.Duration `json:"staleSyncPeriod,omitempty"`
	// Quotas are the ResourceQuotas of projects. The first one that selects a project applies.
	Quotas []ProjectQuota `json:"quotas,omitempty"`
}

// ProjectQuota is a ResourceQuota for some projects.
type ProjectQuota struct {
	// Config is a v1 ResourceQuota, with apiVersion and kind, names that an API server accepts, and no limit below 0: its labels,
	// annotations and spec.hard are used. Required.
	Config *corev1.ResourceQuota `json:"config,omitempty"`
	// ProjectSelector selects projects by their labels; default: all.
	ProjectSelector *metav1.LabelSelector `json:"projectSelector,omitempty"`
}

// EspalierControllerManager contains the settings that are not part of Gardener's schema.
type EspalierControllerManager struct {
	Project EspalierProject `json:"project,omitempty"`
}

// EspalierProject configures project-controller.
type EspalierProject struct {
	// Webhooks configures where webhooks are served.
	Webhooks EspalierProjectWebhooks `json:"webhooks,omitempty"`
	// StaleDeletion is the action when the deletion date of a project is reached: Delete; DryRun, which reports the deletion in an Event and a
	// metric, without deleting; or Off, with which projects become stale but get no deletion date.
	StaleDeletion string `json:"staleDeletion,omitempty"`
	// StaleDeletionWithoutShoots allows the deletion of projects even if the API server serves no Shoots.
	StaleDeletionWithoutShoots bool `json:"staleDeletionWithoutShoots,omitempty"`
	// StaleForecast is how long before a project becomes stale, and before it is deleted, an Event announces it; at least 0, 0 for never.
	StaleForecast *metav1.Duration `json:"staleForecast,omitempty"`
	// StaleDeletionNotice is the minimum time between the announcement of a deletion and the deletion itself, even if the deletion date has
	// passed. The announcement can be late because deletion was off or in dry-run mode, because it was unknown whether the project is in use,
	// or because no process was running. A project whose deletion was not announced may still be deleted within an hour after its date. At
	// most StaleForecast; 0 (default): projects are deleted at their date.
	StaleDeletionNotice *metav1.Duration `json:"staleDeletionNotice,omitempty"`
	// MaxProjectsPerCreator is the maximum number of projects that one user may have created; at least 1. It needs the webhooks. Nil: no
	// limit.
	MaxProjectsPerCreator *int `json:"maxProjectsPerCreator,omitempty"`
	// MembershipExpiry enables the annotation project.espalier.dev/membership-expiry.
	MembershipExpiry bool `json:"membershipExpiry,omitempty"`
}

// Allowed values of EspalierProject.StaleDeletion.
const (
	StaleDeletionDelete = "Delete"
	StaleDeletionDryRun = "DryRun"
	StaleDeletionOff    = "Off"
)

// EspalierProjectWebhooks configures where the webhooks of project-controller are served.
type EspalierProjectWebhooks struct {
	// BindAddress is a host or IP address; empty: all interfaces.
	BindAddress string `json:"bindAddress,omitempty"`
	// Port is a TCP port, different from the ports of metrics and probes.
	Port int `json:"port,omitempty"`
	// TLS names the serving certificate. If there is neither a certificate nor SelfManaged, no webhooks are served.
	TLS EspalierProjectTLS `json:"tls,omitempty"`
	// ShutdownDelay is how long requests are still accepted after the process was asked to stop; at least 0, at most 4s.
	ShutdownDelay *metav1.Duration `json:"shutdownDelay,omitempty"`
	// SelfManaged makes the process issue its own certificates and maintain its own webhook configurations. Nil: certificates come from TLS,
	// and another client maintains the configurations. The names of the Secret, the Service and the configurations default to
	// espalier-project-controller. In SelfManaged, Flavor must be standalone, and ExcludedNamespaces must be empty.
	SelfManaged *EspalierSelfManagedWebhooks `json:"selfManaged,omitempty"`
}

// EspalierProjectTLS names a serving certificate, by a folder or by two files.
type EspalierProjectTLS struct {
	// ServerCertDir is the folder with tls.crt and tls.key.
	ServerCertDir string `json:"serverCertDir,omitempty"`
	// ServerCertPath and ServerKeyPath are the files of the certificate, with its chain, and of its key. Set both or none; they exclude
	// ServerCertDir.
	ServerCertPath string `json:"serverCertPath,omitempty"`
	ServerKeyPath  string `json:"serverKeyPath,omitempty"`
}

// Named reports whether a certificate is configured.
func (c EspalierProjectTLS) Named() bool { return c.ServerCertDir != "" || c.ServerCertPath != "" }

// Served reports whether the webhooks are served, which requires a certificate.
func (c EspalierProjectWebhooks) Served() bool { return c.TLS.Named() || c.SelfManaged != nil }

// Day is the unit of settings in days.
const Day = 24 * time.Hour
