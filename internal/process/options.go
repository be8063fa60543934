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

// Needs are the options of a binary for its manager, and the access to source and target that it requires.
type Needs struct {
	// Scheme contains the types of source and target, because both may be one cluster.
	Scheme *runtime.Scheme
	// SourceCache and TargetCache restrict or transform the objects in the caches. Connect adds the namespaces and the resync period of the
	// configuration. If source and target are one cluster, the entries of both apply to the one cache.
	SourceCache, TargetCache cache.Options
	// SourceAccess and TargetAccess are checked before the manager starts.
	SourceAccess, TargetAccess []Requirement
	// TargetRights are checked in the target, too. If there is only one cluster, they are checked there.
	TargetRights []Right
	// SkipNameValidation allows several managers of one test process to have controllers of the same name.
	SkipNameValidation bool
	// EveryReplica makes all replicas active at the same time, without leader election.
	EveryReplica bool
	// WebhookServer serves webhooks; nil if the binary has none.
	WebhookServer webhook.Server
}

// ManagerOptions returns the options of the manager, which is connected to the source cluster. It is pure: Connect adds the options that
// need a connection (REST mapper, leader election without client-side limit).
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

		LeaderElection:                ptr.Deref(cfg.LeaderElection.LeaderElect, true) && !needs.EveryReplica,
		LeaderElectionResourceLock:    cfg.LeaderElection.ResourceLock,
		LeaderElectionNamespace:       cfg.LeaderElection.ResourceNamespace,
		LeaderElectionID:              program.LeaseName(cfg.LeaderElection.ResourceName),
		LeaderElectionReleaseOnCancel: true, // Safe, because the process exits when its manager has stopped.
		LeaseDuration:                 ptr.To(cfg.LeaderElection.LeaseDuration.Duration),
		RenewDeadline:                 ptr.To(cfg.LeaderElection.RenewDeadline.Duration),
		RetryPeriod:                   ptr.To(cfg.LeaderElection.RetryPeriod.Duration),

		Metrics: metricsserver.Options{
			BindAddress:   address(cfg.Server.Metrics),
			ExtraHandlers: profilingHandlers(cfg.Debugging),
		},
		HealthProbeBindAddress:  address(cfg.Server.HealthProbes),
		WebhookServer:           needs.WebhookServer,
		GracefulShutdownTimeout: ptr.To(shutdownTimeout),
		Controller: controllerconfig.Controller{
			RecoverPanic:       ptr.To(true),
			CacheSyncTimeout:   cfg.CacheSyncTimeout,
			SkipNameValidation: ptr.To(needs.SkipNameValidation),
		},
	}
}

// TargetOptions returns the options of a separate target cluster. It is pure; Connect adds REST mapper and HTTP client.
func TargetOptions(connection config.ClientConnection, needs Needs, log logr.Logger) cluster.Options {
	return cluster.Options{
		Scheme: needs.Scheme,
		Cache:  cacheOptions(connection, needs.TargetCache),
		Client: clientOptions(),
		Logger: log,
	}
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

// clientOptions makes clients read Secrets and Events live, as typed objects and as metadata. Otherwise the first read of a Secret would
// cache the contents of all Secrets.
func clientOptions() client.Options {
	return client.Options{Cache: &client.CacheOptions{DisableFor: []client.Object{
		metadataOf(schema.GroupVersionKind{Version: "v1", Kind: "Secret"}),
		metadataOf(schema.GroupVersionKind{Version: "v1", Kind: "Event"}),
		metadataOf(schema.GroupVersionKind{Group: "events.k8s.io", Version: "v1", Kind: "Event"}),
	}}}
}

// metadataOf returns an empty object for the metadata of a kind. The type of the kind does not have to be in a scheme.
func metadataOf(gvk schema.GroupVersionKind) client.Object {
	object := &metav1.PartialObjectMetadata{}
	object.SetGroupVersionKind(gvk)
	return object
}

// profilingHandlers returns the handlers that are added to the metrics port; none without profiling.
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
		return "0" // This disables the server.
	}
	return net.JoinHostPort(endpoint.BindAddress, strconv.Itoa(endpoint.Port))
}

func union(a, b map[client.Object]cache.ByObject) map[client.Object]cache.ByObject {
	if len(a)+len(b) == 0 {
		return nil
	}
	both := make(map[client.Object]cache.ByObject, len(a)+len(b))
	maps.Copy(both, a)
	maps.Copy(both, b)
	return both
}
