package config

import (
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// The group version and kind that a configuration file of the resource-manager family must name.
const (
	ResourceManagerAPIVersion = "resourcemanager.config.gardener.cloud/v1alpha1"
	ResourceManagerKind       = "ResourceManagerConfiguration"
)

// AllResourceClasses as the resource class makes a process serve ManagedResources of every class.
const AllResourceClasses = "*"

// ResourceManagerConfiguration is the file that every binary of the resource-manager family takes. Each binary reads
// its own sections and ignores the others. ResourceManager decodes and defaults it.
type ResourceManagerConfiguration struct {
	metav1.TypeMeta `json:",inline"`

	// SourceClientConnection leads to the cluster that holds ManagedResources, Secrets and leases.
	SourceClientConnection ClientConnection `json:"sourceClientConnection,omitempty"`
	// TargetClientConnection leads to the cluster that is managed. Nil: it is the source cluster, with one client and
	// one cache. Present but empty: a client of its own, in-cluster.
	TargetClientConnection *ClientConnection `json:"targetClientConnection,omitempty"`
	// LeaderElection decides which of several replicas works.
	LeaderElection LeaderElection `json:"leaderElection,omitempty"`
	// Server says where webhooks, health probes and metrics are served.
	Server Server `json:"server,omitempty"`
	// Debugging switches profiling on.
	Debugging Debugging `json:"debugging,omitempty"`
	// LogLevel is debug, info (default) or error.
	LogLevel string `json:"logLevel,omitempty"`
	// LogFormat is json (default) or text.
	LogFormat string `json:"logFormat,omitempty"`
	// Controllers has one section per controller.
	Controllers Controllers `json:"controllers,omitempty"`
	// Webhooks has one section per admission handler.
	Webhooks Webhooks `json:"webhooks,omitempty"`
	// Espalier holds the settings that Gardener's schema does not know.
	Espalier Espalier `json:"espalier,omitempty"`
}

// ClientConnection is how a process talks to one API server.
type ClientConnection struct {
	// Kubeconfig is the path of a kubeconfig file. Empty: in-cluster configuration.
	Kubeconfig string `json:"kubeconfig,omitempty"`
	// AcceptContentTypes and ContentType are passed to the REST client. Empty: the client's own choice.
	AcceptContentTypes string `json:"acceptContentTypes,omitempty"`
	ContentType        string `json:"contentType,omitempty"`
	// QPS is the sustained number of requests per second. 0 together with Burst 0: no limit on the client's side;
	// 0 with Burst set: 100; negative: no limit.
	QPS float32 `json:"qps,omitempty"`
	// Burst is how many requests may be sent at once above QPS; at least 0. 0 with QPS set: 130.
	Burst int32 `json:"burst,omitempty"`
	// Namespaces restricts caches, and with them what controllers and webhooks see of that cluster. Empty: all.
	Namespaces []string `json:"namespaces,omitempty"`
	// CacheResyncPeriod is how often informers hand out everything again; at least 10s, default 24h.
	CacheResyncPeriod *metav1.Duration `json:"cacheResyncPeriod,omitempty"`
}

// LeaderElection is how replicas agree on the one that works.
type LeaderElection struct {
	// LeaderElect switches leader election; default true.
	LeaderElect *bool `json:"leaderElect,omitempty"`
	// LeaseDuration is how long others wait for a silent leader; default 15s.
	LeaseDuration metav1.Duration `json:"leaseDuration,omitempty"`
	// RenewDeadline is how long the leader tries to renew before it gives up; default 10s.
	RenewDeadline metav1.Duration `json:"renewDeadline,omitempty"`
	// RetryPeriod is the pause between two attempts; default 2s.
	RetryPeriod metav1.Duration `json:"retryPeriod,omitempty"`
	// ResourceLock is the kind of the lock; only leases (the default) exist.
	ResourceLock string `json:"resourceLock,omitempty"`
	// ResourceName is the lease's name; default gardener-resource-manager.
	ResourceName string `json:"resourceName,omitempty"`
	// ResourceNamespace is the lease's namespace in the source cluster; no default.
	ResourceNamespace string `json:"resourceNamespace,omitempty"`
}

// Server says where a process listens.
type Server struct {
	// Webhooks is the HTTPS server for admission handlers.
	Webhooks WebhookServer `json:"webhooks,omitempty"`
	// HealthProbes serves /healthz and /readyz; default port 8081.
	HealthProbes *Endpoint `json:"healthProbes,omitempty"`
	// Metrics serves /metrics; default port 8080.
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
	// Port is a TCP port; default 9449.
	Port int `json:"port,omitempty"`
	// TLS names the serving certificate.
	TLS TLSServer `json:"tls,omitempty"`
}

// TLSServer names a serving certificate.
type TLSServer struct {
	// ServerCertDir is the folder that holds tls.crt and tls.key.
	ServerCertDir string `json:"serverCertDir,omitempty"`
}

// Debugging switches profiling on.
type Debugging struct {
	// EnableProfiling serves /debug/pprof on the metrics port.
	EnableProfiling bool `json:"enableProfiling,omitempty"`
	// EnableContentionProfiling also records blocking; only with EnableProfiling.
	EnableContentionProfiling bool `json:"enableContentionProfiling,omitempty"`
}
