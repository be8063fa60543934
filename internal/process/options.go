package process

import (
	"maps"
	"net"
	"net/http"
	"net/http/pprof"
	"strconv"

	"github.com/go-logr/logr"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/controller-runtime/pkg/cache"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/cluster"
	controllerconfig "sigs.k8s.io/controller-runtime/pkg/config"
	"sigs.k8s.io/controller-runtime/pkg/manager"
	metricsserver "sigs.k8s.io/controller-runtime/pkg/metrics/server"
	"sigs.k8s.io/controller-runtime/pkg/webhook"

	"github.com/espalier-dev/espalier/internal/config"
)

// Needs are what a binary asks of its connections.
type Needs struct {
	// Scheme knows the types of the source; those of the target too, because both may be one cluster.
	Scheme *runtime.Scheme
	// SourceCache and TargetCache restrict or transform what is cached. Namespaces and resync period come from the
	// configuration on top. If source and target are one cluster, the entries of both count.
	SourceCache, TargetCache cache.Options
	// SourceAccess and TargetAccess are checked before anything starts.
	SourceAccess, TargetAccess []Requirement
	// SkipNameValidation lets several managers of one test process have controllers of the same name.
	SkipNameValidation bool
	// EveryReplica makes all replicas work at once, without leader election.
	EveryReplica bool
	// WebhookServer serves webhooks; nil stands for a plain one, which listens where the configuration says.
	WebhookServer webhook.Server
}

// ManagerOptions returns the options of the manager on the source cluster. It is pure: what needs a connection (REST
// mapper, leader election without client limit) is added by Connect.
func ManagerOptions(program Program, cfg config.Process, needs Needs, log logr.Logger) manager.Options {
	sourceCache := needs.SourceCache
	if cfg.Target == nil {
		sourceCache.ByObject = union(needs.SourceCache.ByObject, needs.TargetCache.ByObject)
	}
	return manager.Options{
		Scheme: needs.Scheme,
		Cache:  cacheOptions(cfg.Source, sourceCache),
		Client: clientOptions(),
		Logger: log,

		LeaderElection:                leaderElection(cfg, needs),
		LeaderElectionResourceLock:    cfg.LeaderElection.ResourceLock,
		LeaderElectionNamespace:       cfg.LeaderElection.ResourceNamespace,
		LeaderElectionID:              program.LeaseName(cfg.LeaderElection.ResourceName),
		LeaderElectionReleaseOnCancel: true, // The process ends when its manager has ended, which this needs to be safe.
		LeaseDuration:                 ptr.To(cfg.LeaderElection.LeaseDuration.Duration),
		RenewDeadline:                 ptr.To(cfg.LeaderElection.RenewDeadline.Duration),
		RetryPeriod:                   ptr.To(cfg.LeaderElection.RetryPeriod.Duration),

		Metrics: metricsserver.Options{
			BindAddress:   address(cfg.Server.Metrics),
			ExtraHandlers: profilingHandlers(cfg.Debugging),
		},
		HealthProbeBindAddress:  address(cfg.Server.HealthProbes),
		WebhookServer:           webhookServer(cfg, needs),
		GracefulShutdownTimeout: ptr.To(shutdownTimeout),
		Controller: controllerconfig.Controller{
			RecoverPanic:       ptr.To(true),
			CacheSyncTimeout:   cfg.CacheSyncTimeout,
			SkipNameValidation: ptr.To(needs.SkipNameValidation),
		},
	}
}

func webhookServer(cfg config.Process, needs Needs) webhook.Server {
	if needs.WebhookServer != nil {
		return needs.WebhookServer
	}
	return webhook.NewServer(webhook.Options{
		Host:    cfg.Server.Webhooks.BindAddress,
		Port:    cfg.Server.Webhooks.Port,
		CertDir: cfg.Server.Webhooks.TLS.ServerCertDir,
	})
}

// TargetOptions returns the options of a target cluster of its own. It is pure; Connect adds REST mapper and HTTP client.
func TargetOptions(connection config.ClientConnection, needs Needs, log logr.Logger) cluster.Options {
	return cluster.Options{
		Scheme: needs.Scheme,
		Cache:  cacheOptions(connection, needs.TargetCache),
		Client: clientOptions(),
		Logger: log,
	}
}

func leaderElection(cfg config.Process, needs Needs) bool {
	return ptr.Deref(cfg.LeaderElection.LeaderElect, true) && !needs.EveryReplica
}

// cacheOptions returns base, restricted to the namespaces of a connection, if it names any.
func cacheOptions(connection config.ClientConnection, base cache.Options) cache.Options {
	if len(connection.Namespaces) > 0 {
		base.DefaultNamespaces = map[string]cache.Config{}
		for _, namespace := range connection.Namespaces {
			base.DefaultNamespaces[namespace] = cache.Config{}
		}
	}
	if connection.CacheResyncPeriod != nil {
		base.SyncPeriod = ptr.To(connection.CacheResyncPeriod.Duration)
	}
	return base
}

// clientOptions makes clients read Secrets and Events live, whole or as metadata: no process holds the contents of
// Secrets in its memory because somebody read one.
func clientOptions() client.Options {
	return client.Options{Cache: &client.CacheOptions{DisableFor: []client.Object{
		metadataOf(schema.GroupVersionKind{Version: "v1", Kind: "Secret"}),
		metadataOf(schema.GroupVersionKind{Version: "v1", Kind: "Event"}),
		metadataOf(schema.GroupVersionKind{Group: "events.k8s.io", Version: "v1", Kind: "Event"}),
	}}}
}

// metadataOf names a kind without asking a scheme to know its type.
func metadataOf(gvk schema.GroupVersionKind) client.Object {
	object := &metav1.PartialObjectMetadata{}
	object.SetGroupVersionKind(gvk)
	return object
}

// profilingHandlers are served on the metrics port; none without profiling.
func profilingHandlers(debugging config.Debugging) map[string]http.Handler {
	if !debugging.EnableProfiling {
		return nil
	}
	return map[string]http.Handler{
		"/debug/pprof":         http.HandlerFunc(pprof.Index),
		"/debug/pprof/":        http.HandlerFunc(pprof.Index),
		"/debug/pprof/profile": http.HandlerFunc(pprof.Profile),
		"/debug/pprof/symbol":  http.HandlerFunc(pprof.Symbol),
		"/debug/pprof/trace":   http.HandlerFunc(pprof.Trace),
	}
}

func address(endpoint *config.Endpoint) string {
	if endpoint == nil {
		return "0" // Serves nothing.
	}
	return net.JoinHostPort(endpoint.BindAddress, strconv.Itoa(endpoint.Port))
}

func union[V any](a, b map[client.Object]V) map[client.Object]V {
	if len(a)+len(b) == 0 {
		return nil
	}
	both := maps.Clone(a)
	if both == nil {
		both = map[client.Object]V{}
	}
	maps.Copy(both, b)
	return both
}
