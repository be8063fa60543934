package config

import (
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/ptr"
)

// The group version and kind that a configuration file of the resource-manager family must name.
const (
	ResourceManagerAPIVersion = "resourcemanager.config.gardener.cloud/v1alpha1"
	ResourceManagerKind       = "ResourceManagerConfiguration"
)

// ResourceManagerConfiguration is the configuration file of all binaries of the resource-manager family. Each binary reads its own
// sections and ignores the others. The function ResourceManager decodes the file and sets the defaults.
type ResourceManagerConfiguration struct {
	metav1.TypeMeta `json:",inline"`

	// SourceClientConnection is the connection to the cluster with ManagedResources, Secrets and leases.
	SourceClientConnection ClientConnection `json:"sourceClientConnection,omitempty"`
	// TargetClientConnection is the connection to the managed cluster. Nil: the source cluster is the target, with one client and one
	// cache. Empty but not nil: a separate client with the in-cluster configuration.
	TargetClientConnection *ClientConnection `json:"targetClientConnection,omitempty"`
	// LeaderElection configures which of several replicas is active.
	LeaderElection LeaderElection `json:"leaderElection,omitempty"`
	// Server configures where webhooks, health probes and metrics are served.
	Server Server `json:"server,omitempty"`

	Debugging Debugging `json:"debugging,omitempty"`

	// LogLevel is one of debug, info and error: info logs all changes of a cluster, debug also why nothing was changed.
	LogLevel string `json:"logLevel,omitempty"`
	// LogFormat is one of json and text.
	LogFormat string `json:"logFormat,omitempty"`

	Controllers Controllers `json:"controllers,omitempty"`
	Webhooks    Webhooks    `json:"webhooks,omitempty"`
	Espalier    Espalier    `json:"espalier,omitempty"`
}

// ClientConnection configures how a process connects to one API server.
type ClientConnection struct {
	// Kubeconfig is the path of a kubeconfig file. Empty: in-cluster configuration.
	Kubeconfig string `json:"kubeconfig,omitempty"`
	// AcceptContentTypes and ContentType are passed to the REST client. Empty: the default of the client.
	AcceptContentTypes string `json:"acceptContentTypes,omitempty"`
	ContentType        string `json:"contentType,omitempty"`
	// QPS is the sustained number of requests per second. 0 with Burst 0: no client-side limit; 0 with Burst set: 100; negative: no limit.
	QPS float32 `json:"qps,omitempty"`
	// Burst is how many requests may exceed QPS at once; at least 0. 0 with QPS set: 130.
	Burst int32 `json:"burst,omitempty"`
	// Namespaces restricts the caches to objects in these namespaces: controllers and webhooks see no other namespaced objects of that
	// cluster. Cluster-scoped kinds are not affected. Empty: all namespaces.
	Namespaces []string `json:"namespaces,omitempty"`
	// CacheResyncPeriod is how often informers send all objects again; at least 10s.
	CacheResyncPeriod *metav1.Duration `json:"cacheResyncPeriod,omitempty"`
}

// LeaderElection configures how replicas elect the active one.
type LeaderElection struct {
	// LeaderElect enables leader election. If it is false, controllers start at once, without a lease: run one replica only.
	LeaderElect *bool `json:"leaderElect,omitempty"`
	// LeaseDuration is how long other replicas wait for a leader that does not renew its lease; longer than RenewDeadline.
	LeaseDuration metav1.Duration `json:"leaseDuration,omitempty"`
	// RenewDeadline is how long the leader tries to renew before it gives up; more than 1.2 times RetryPeriod.
	RenewDeadline metav1.Duration `json:"renewDeadline,omitempty"`
	// RetryPeriod is the pause between two attempts; more than 0.
	RetryPeriod metav1.Duration `json:"retryPeriod,omitempty"`
	// ResourceLock is the kind of the lock; only leases is supported.
	ResourceLock string `json:"resourceLock,omitempty"`
	// ResourceName is the lease's name.
	ResourceName string `json:"resourceName,omitempty"`
	// ResourceNamespace is the lease's namespace in the source cluster; required if LeaderElect is true.
	ResourceNamespace string `json:"resourceNamespace,omitempty"`
}

// Server configures where a process listens.
type Server struct {
	// Webhooks serves admission webhooks, by HTTPS. Only binaries that have webhooks listen on its port.
	Webhooks WebhookServer `json:"webhooks,omitempty"`
	// HealthProbes serves /healthz and /readyz.
	HealthProbes *Endpoint `json:"healthProbes,omitempty"`
	// Metrics serves /metrics, without authentication.
	Metrics *Endpoint `json:"metrics,omitempty"`
}

// Endpoint is an address to listen on.
type Endpoint struct {
	// BindAddress is a host or IP address; empty: all interfaces.
	BindAddress string `json:"bindAddress,omitempty"`
	// Port is a TCP port; 0: the default of that server.
	Port int `json:"port,omitempty"`
}

// WebhookServer is the HTTPS server for admission handlers.
type WebhookServer struct {
	// BindAddress is a host or IP address; empty: all interfaces.
	BindAddress string `json:"bindAddress,omitempty"`
	// Port is a TCP port.
	Port int `json:"port,omitempty"`
	// TLS names the serving certificate.
	TLS TLSServer `json:"tls,omitempty"`
}

// TLSServer names a serving certificate.
type TLSServer struct {
	// ServerCertDir is the folder with tls.crt and tls.key.
	ServerCertDir string `json:"serverCertDir,omitempty"`
}

// Debugging enables profiling.
type Debugging struct {
	// EnableProfiling serves /debug/pprof on the metrics port. Profiles can contain secrets: restrict access to that port.
	EnableProfiling bool `json:"enableProfiling,omitempty"`
	// EnableContentionProfiling also records blocking; it requires EnableProfiling.
	EnableContentionProfiling bool `json:"enableContentionProfiling,omitempty"`
}

// Process contains the settings that every binary needs. It is not a section of a file: each configuration type has a method Process, which
// returns these settings from its own fields.
type Process struct {
	Source         ClientConnection
	Target         *ClientConnection // nil: the source cluster is the target
	LeaderElection LeaderElection
	Server         Server
	Debugging      Debugging
	LogLevel       string
	LogFormat      string
	// CacheSyncTimeout is how long controllers wait for their caches at start, and how long informers may be out of sync before /healthz
	// fails.
	CacheSyncTimeout time.Duration
}

// Process returns the part of c that every binary needs. It expects a defaulted configuration.
func (c *ResourceManagerConfiguration) Process() Process {
	p := Process{
		Source:           c.SourceClientConnection,
		LeaderElection:   c.LeaderElection,
		Server:           c.Server,
		Debugging:        c.Debugging,
		LogLevel:         c.LogLevel,
		LogFormat:        c.LogFormat,
		CacheSyncTimeout: ptr.Deref(c.Controllers.CacheSyncTimeout, duration(defaultCacheSyncTimeout)).Duration,
	}
	if c.TargetClientConnection != nil {
		p.Target = ptr.To(*c.TargetClientConnection)
	}
	return p
}

// TargetNamespaces returns the namespaces to which the connection to the target is restricted, and the section that restricts it.
func (c *ResourceManagerConfiguration) TargetNamespaces() (namespaces []string, section string) {
	if c.TargetClientConnection != nil {
		return c.TargetClientConnection.Namespaces, "targetClientConnection"
	}
	return c.SourceClientConnection.Namespaces, "sourceClientConnection"
}
