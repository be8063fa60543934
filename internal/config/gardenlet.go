package config

import (
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// The group version and kind that a configuration file of extension-controller must name.
const (
	GardenletAPIVersion = "gardenlet.config.gardener.cloud/v1alpha1"
	GardenletKind       = "GardenletConfiguration"
)

// GardenletConfiguration is the configuration file of extension-controller. The function Gardenlet decodes the file and sets the defaults.
// The function ignores the sections for the other controllers of the program gardenlet.
type GardenletConfiguration struct {
	metav1.TypeMeta `json:",inline"`

	// GardenClientConnection is the connection to the garden cluster.
	GardenClientConnection GardenClientConnection `json:"gardenClientConnection,omitempty"`
	// SeedClientConnection is the connection to the cluster of the Seed. It cannot be restricted to namespaces. Defaults: QPS 50, Burst 100.
	SeedClientConnection ClientConnection `json:"seedClientConnection,omitempty"`
	// LeaderElection configures which of several replicas is active. Defaults: ResourceNamespace garden, ResourceName
	// gardenlet-leader-election. The process appends `-extension-controller` to ResourceName.
	LeaderElection LeaderElection `json:"leaderElection,omitempty"`
	// LogLevel is one of debug, info and error: info logs all changes of a cluster, debug also why nothing was changed.
	LogLevel string `json:"logLevel,omitempty"`
	// LogFormat is one of json and text.
	LogFormat string `json:"logFormat,omitempty"`

	Server    GardenletServer `json:"server,omitempty"`
	Debugging Debugging       `json:"debugging,omitempty"`

	// FeatureGates are values for the charts of extensions. They have no effect on the process.
	FeatureGates map[string]bool `json:"featureGates,omitempty"`

	Controllers GardenletControllers `json:"controllers,omitempty"`
	SeedConfig  SeedConfig           `json:"seedConfig,omitempty"`
	Espalier    EspalierGardenlet    `json:"espalier,omitempty"`
}

// GardenClientConnection is the connection to the garden cluster. It has the fields of a client connection, with the defaults QPS 50 and
// Burst 100, and cannot be restricted to namespaces. If Kubeconfig or the environment variable GARDEN_KUBECONFIG is set, KubeconfigSecret
// and BootstrapKubeconfig have no effect, and the process does not renew its credentials.
type GardenClientConnection struct {
	ClientConnection `json:",inline"`

	// GardenClusterAddress is the address of the garden cluster in the kubeconfigs of extensions, as https://host:port; default: the address
	// that the process uses.
	GardenClusterAddress *string `json:"gardenClusterAddress,omitempty"`
	// GardenClusterCACert is the certificate authority of the garden cluster in the kubeconfigs of extensions, as PEM in base64; default: the
	// authority that the process uses.
	GardenClusterCACert []byte `json:"gardenClusterCACert,omitempty"`
	// BootstrapKubeconfig is a Secret in the cluster of the Seed. The process uses the kubeconfig in this Secret to request its client
	// certificate, and deletes the Secret when it has the certificate. BootstrapKubeconfig needs KubeconfigSecret.
	BootstrapKubeconfig *SecretReference `json:"bootstrapKubeconfig,omitempty"`
	// KubeconfigSecret is the Secret in the cluster of the Seed in which the process keeps a kubeconfig with its client certificate.
	KubeconfigSecret *SecretReference `json:"kubeconfigSecret,omitempty"`
	// KubeconfigValidity configures the client certificate.
	KubeconfigValidity KubeconfigValidity `json:"kubeconfigValidity,omitempty"`
}

// SecretReference names a Secret.
type SecretReference struct {
	// Name is the name of the Secret.
	Name string `json:"name,omitempty"`
	// Namespace is its namespace.
	Namespace string `json:"namespace,omitempty"`
}

// KubeconfigValidity configures the client certificate for the garden cluster.
type KubeconfigValidity struct {
	// Validity is the requested validity of the certificate; at least 10m. Nil: the signer decides.
	Validity *metav1.Duration `json:"validity,omitempty"`
	// AutoRotationJitterPercentageMin and AutoRotationJitterPercentageMax are parts of the validity of the certificate, in percent; from 1 to
	// 100. The process renews the certificate at a random time between both.
	AutoRotationJitterPercentageMin *int32 `json:"autoRotationJitterPercentageMin,omitempty"`
	AutoRotationJitterPercentageMax *int32 `json:"autoRotationJitterPercentageMax,omitempty"`
}

// GardenletServer configures where a gardenlet listens.
type GardenletServer struct {
	// HealthProbes serves /healthz and /readyz; default port 2728.
	HealthProbes *Endpoint `json:"healthProbes,omitempty"`
	// Metrics serves /metrics, at another port than HealthProbes; default port 2729.
	Metrics *Endpoint `json:"metrics,omitempty"`
}

// GardenletControllers has one section per controller.
type GardenletControllers struct {
	ControllerInstallation         ControllerInstallationController         `json:"controllerInstallation,omitempty"`
	ControllerInstallationCare     ControllerInstallationCareController     `json:"controllerInstallationCare,omitempty"`
	ControllerInstallationRequired ControllerInstallationRequiredController `json:"controllerInstallationRequired,omitempty"`
}

// ControllerInstallationController installs the charts of ControllerInstallations.
type ControllerInstallationController struct {
	// ConcurrentSyncs is the number of workers; at least 1.
	ConcurrentSyncs *int `json:"concurrentSyncs,omitempty"`
}

// ControllerInstallationCareController reports the health of installed charts.
type ControllerInstallationCareController struct {
	// ConcurrentSyncs is the number of workers; at least 1.
	ConcurrentSyncs *int `json:"concurrentSyncs,omitempty"`
	// SyncPeriod is how often the conditions are checked without a change; at least 15s.
	SyncPeriod *metav1.Duration `json:"syncPeriod,omitempty"`
}

// ControllerInstallationRequiredController reports which ControllerInstallations are needed by objects of the Seed.
type ControllerInstallationRequiredController struct {
	// ConcurrentSyncs is the number of workers; at least 1.
	ConcurrentSyncs *int `json:"concurrentSyncs,omitempty"`
}

// SeedConfig names the Seed. The process does not register it, so it ignores the other fields of the Seed.
type SeedConfig struct {
	Metadata SeedMetadata `json:"metadata,omitempty"`
}

// SeedMetadata names the Seed.
type SeedMetadata struct {
	// Name is the name of the only Seed whose ControllerInstallations the process handles. Without a name, the process does not start.
	Name string `json:"name,omitempty"`
}

// EspalierGardenlet contains the settings that are not part of Gardener's schema.
type EspalierGardenlet struct {
	Extension EspalierExtension `json:"extension,omitempty"`
}

// EspalierExtension configures extension-controller.
type EspalierExtension struct {
	// GardenerVersion is the version of Gardener that charts get. Default: the version of the API server of the garden. The ConfigMap
	// gardener-system-public/gardener-info in the garden contains this version.
	GardenerVersion string `json:"gardenerVersion,omitempty"`
	// ChartPolicy restricts what the charts of extensions may contain.
	ChartPolicy EspalierChartPolicy `json:"chartPolicy,omitempty"`
}

// EspalierChartPolicy extends what a chart may contain. An empty policy allows objects of usual kinds in the namespace of the chart,
// with rights that the chart itself lists, without access to nodes.
type EspalierChartPolicy struct {
	// Kinds are additional namespaced kinds, as Kind or Kind.group.
	Kinds []string `json:"kinds,omitempty"`
	// ClusterKinds are additional kinds without a namespace, as Kind or Kind.group.
	ClusterKinds []string `json:"clusterKinds,omitempty"`
	// Namespaces are allowed for objects, subjects of bindings and Services of webhooks, besides the namespace of the chart.
	Namespaces []string `json:"namespaces,omitempty"`
	// ClusterRoles are names of existing ClusterRoles that bindings may refer to, besides the roles of the chart.
	ClusterRoles []string `json:"clusterRoles,omitempty"`
	// Wildcards allows `*` in the rules of roles.
	Wildcards bool `json:"wildcards,omitempty"`
	// Escalation allows the verbs escalate, bind and impersonate, and roles that collect the rights of others or extend them.
	Escalation bool `json:"escalation,omitempty"`
	// Webhooks allows configurations of admission webhooks.
	Webhooks bool `json:"webhooks,omitempty"`
	// HostAccess allows Pods that use files, network or processes of a node, and Services that take over addresses.
	HostAccess bool `json:"hostAccess,omitempty"`
	// SignatureKeys are public keys in PEM format. If there are any, one of them must have signed each chart with cosign.
	SignatureKeys []string `json:"signatureKeys,omitempty"`
}

// The defaults of the jitter of a renewal, in percent of the validity.
const (
	defaultJitterMin = 70
	defaultJitterMax = 90
)

// Default sets every field of c that is unset and has a default. It keeps all other fields. A second call changes nothing.
func (c *GardenletConfiguration) Default() {
	for _, connection := range []*ClientConnection{&c.GardenClientConnection.ClientConnection, &c.SeedClientConnection} {
		setIfZero(&connection.QPS, 50)
		setIfZero(&connection.Burst, 100)
		defaultClientConnection(connection)
	}
	setIfNil(&c.GardenClientConnection.KubeconfigValidity.AutoRotationJitterPercentageMin, defaultJitterMin)
	setIfNil(&c.GardenClientConnection.KubeconfigValidity.AutoRotationJitterPercentageMax, defaultJitterMax)
	setIfZero(&c.LeaderElection.ResourceName, "gardenlet-leader-election")
	setIfZero(&c.LeaderElection.ResourceNamespace, "garden")
	defaultLeaderElection(&c.LeaderElection)
	setIfZero(&c.LogLevel, "info")
	setIfZero(&c.LogFormat, "json")
	defaultEndpoint(&c.Server.HealthProbes, 2728)
	defaultEndpoint(&c.Server.Metrics, 2729)
	setIfNil(&c.Controllers.ControllerInstallation.ConcurrentSyncs, 20)
	setIfNil(&c.Controllers.ControllerInstallationCare.ConcurrentSyncs, defaultWorkers)
	setIfNil(&c.Controllers.ControllerInstallationCare.SyncPeriod, duration(30*time.Second))
	setIfNil(&c.Controllers.ControllerInstallationRequired.ConcurrentSyncs, 1)
}

// Process returns the part of c that every binary needs. It expects a defaulted configuration. The garden cluster is the target.
func (c *GardenletConfiguration) Process() Process {
	garden := c.GardenClientConnection.ClientConnection
	return Process{
		Source: c.SeedClientConnection, Target: &garden, LeaderElection: c.LeaderElection, Debugging: c.Debugging,
		LogLevel: c.LogLevel, LogFormat: c.LogFormat, Server: Server{HealthProbes: c.Server.HealthProbes, Metrics: c.Server.Metrics},
		CacheSyncTimeout: defaultCacheSyncTimeout,
	}
}
