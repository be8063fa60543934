// Package managedresource assembles the controllers of ManagedResources, called sets here, and the engine that they share. It contains no
// rules of its own.
package managedresource

import (
	"context"
	"fmt"
	"math/rand/v2"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/client-go/dynamic"
	clientgoscheme "k8s.io/client-go/kubernetes/scheme"
	"k8s.io/client-go/metadata"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/controller-runtime/pkg/cache"
	"sigs.k8s.io/controller-runtime/pkg/client"

	resourcesv1alpha1 "github.com/espalier-dev/espalier/api/resources/v1alpha1"
	"github.com/espalier-dev/espalier/internal/apply"
	"github.com/espalier-dev/espalier/internal/apply/observe"
	"github.com/espalier-dev/espalier/internal/config"
	"github.com/espalier-dev/espalier/internal/managedresource/applier"
	"github.com/espalier-dev/espalier/internal/managedresource/garbagecollector"
	"github.com/espalier-dev/espalier/internal/managedresource/health"
	"github.com/espalier-dev/espalier/internal/managedresource/identity"
	"github.com/espalier-dev/espalier/internal/managedresource/ownership"
	"github.com/espalier-dev/espalier/internal/managedresource/secret"
	"github.com/espalier-dev/espalier/internal/managedresource/secretversions"
	"github.com/espalier-dev/espalier/internal/managedresource/state"
	"github.com/espalier-dev/espalier/internal/managedresource/status"
	"github.com/espalier-dev/espalier/internal/process"
)

// deletionPoll is how often pending deletions are checked if there is no event.
const deletionPoll = 5 * time.Second

// Needs returns the connections to clusters that the controllers of ManagedResources need.
func Needs(cfg *config.ResourceManagerConfiguration) (process.Needs, error) {
	scheme := runtime.NewScheme()
	for _, add := range []func(*runtime.Scheme) error{clientgoscheme.AddToScheme, resourcesv1alpha1.AddToScheme} {
		if err := add(scheme); err != nil {
			return process.Needs{}, fmt.Errorf("build scheme: %w", err)
		}
	}
	access := []process.Requirement{
		{Kind: resourcesv1alpha1.SchemeGroupVersion.WithKind("ManagedResource"), Verbs: []string{"get", "list", "watch", "patch"}},
		{Kind: corev1.SchemeGroupVersion.WithKind("Secret"), Verbs: []string{"get", "list", "watch", "patch"}},
	}
	if limits(cfg).Own.SetSelector != nil {
		access = append(access, process.Requirement{
			Kind: corev1.SchemeGroupVersion.WithKind("Namespace"), Verbs: []string{"list", "watch"},
			Otherwise: "remove espalier.managedResource.namespaces.setSelector and list the namespaces in espalier.managedResource.namespaces.sets",
		})
	}
	if cfg.Espalier.ManagedResource.Accounts != nil {
		access = append(access, process.Requirement{
			Kind: corev1.SchemeGroupVersion.WithKind("ServiceAccount"), Verbs: []string{"list", "watch"},
			Otherwise: "remove espalier.managedResource.serviceAccounts, with which the controller applies sets as ServiceAccounts",
		})
	}
	return process.Needs{
		Scheme: scheme,
		SourceCache: cache.Options{
			DefaultTransform: cache.TransformStripManagedFields(),
			NewInformer:      observe.NewInformer,
			ByObject:         map[client.Object]cache.ByObject{&resourcesv1alpha1.ManagedResource{}: {Transform: status.Shrink}},
		},
		SourceAccess: access,
	}, nil
}

// Add adds the controllers to the manager of the source cluster. Their watches on the target end when lifetime ends.
func Add(lifetime context.Context, clusters *process.Clusters, cfg *config.ResourceManagerConfiguration,
	registry prometheus.Registerer,
) error {
	clusterID, err := resolveClusterID(lifetime, clusters.Source.GetAPIReader(), ptr.Deref(cfg.Controllers.ClusterID, ""))
	if err != nil {
		return err
	}
	own := settings(cfg, clusterID, clusters.OwnNamespace)
	target, err := apply.NewTarget(
		clusters.TargetConfig, clusters.TargetHTTPClient, clusters.TargetMapper, *own.Own.MaxConcurrentRequests, clusters.Clock)
	if err != nil {
		return fmt.Errorf("connect to target cluster: %w", err)
	}
	secrets, err := addSecrets(clusters, cfg)
	if err != nil {
		return err
	}
	memory := state.NewMemory()
	changes := applier.NewChanges(memory)
	verdicts := health.NewVerdicts(clusters.Clock, changes.Users)
	sight, err := watches(lifetime, clusters, cfg, changes, verdicts)
	if err != nil {
		return err
	}
	ledger := changes.Ledger(own.Class)
	judge := &health.Reconciler{
		Source: clusters.Source.GetClient(), Target: target, TargetAs: identity.Live{Cluster: clusters.Target}.As,
		Identity: own.Identity, Watcher: sight.watcher, Pods: sight.pods, Whole: sight.whole, Ledger: ledger, Verdicts: verdicts,
		Latency: health.NewMetrics(registry, clusters.Source.GetCache(), ledger.Responsible), Clock: clusters.Clock,
		Config: cfg.Controllers.Health, Own: own.Own,
	}
	r := &applier.Reconciler{
		Planner: applier.Planner{
			Settings: own, Source: clusters.Source.GetClient(), SourceLive: clusters.Source.GetAPIReader(), Versions: secrets,
			Target: target, Watcher: sight.watcher, Autoscalers: sight.autoscalers, SameCluster: clusters.Same.Assume, Clock: clusters.Clock,
			Memory: memory, SourceAs: identity.Live{Cluster: clusters.Source}.As,
		},
		Health:         applier.Health{Registered: sight.whole.IsRegistered, Judge: judge.Judge, Concluded: verdicts.Set},
		SecretVersions: secrets, TargetAs: identity.Live{Cluster: clusters.Target}.As, Jitter: rand.Float64,
		Events:  &applier.Events{Recorder: clusters.Source.GetEventRecorder("managedresource-controller")},
		Metrics: applier.NewMetrics(registry, sight.watcher.Watches, secrets.Kept),
	}
	if own.Own.Accounts != nil {
		r.Accounts = clusters.Source.GetClient()
	}
	concurrency := ptr.Deref(cfg.Controllers.ManagedResource.ConcurrentSyncs, 0)
	if err := r.SetupWithManager(lifetime, clusters.Source, changes, concurrency); err != nil {
		return fmt.Errorf("add controller %s: %w", applier.ControllerName, err)
	}
	if err := addGarbageCollector(clusters, cfg, registry); err != nil {
		return err
	}
	if err := judge.SetupWithManager(clusters.Source, ptr.Deref(cfg.Controllers.Health.ConcurrentSyncs, 0)); err != nil {
		return fmt.Errorf("add controller %s: %w", health.ControllerName, err)
	}
	return nil
}

// sight contains the watchers of the target cluster.
type sight struct {
	watcher     *observe.Watcher
	autoscalers *observe.Autoscalers
	pods        *observe.Pods
	whole       *observe.WholeObjects
}

// watches creates the watchers of the target cluster. No watch starts before a set needs it.
func watches(lifetime context.Context, clusters *process.Clusters, cfg *config.ResourceManagerConfiguration, changes *applier.Changes,
	verdicts *health.Verdicts,
) (*sight, error) {
	metadataClient, err := metadata.NewForConfigAndClient(clusters.TargetConfig, clusters.TargetHTTPClient)
	if err != nil {
		return nil, fmt.Errorf("create metadata client of target cluster: %w", err)
	}
	dynamicClient, err := dynamic.NewForConfigAndClient(clusters.TargetConfig, clusters.TargetHTTPClient)
	if err != nil {
		return nil, fmt.Errorf("create client of target cluster: %w", err)
	}
	whole, err := observe.NewWholeObjects(clusters.TargetConfig, clusters.TargetHTTPClient)
	if err != nil {
		return nil, fmt.Errorf("create client of target cluster: %w", err)
	}
	namespaces, log := targetNamespaces(cfg), clusters.Source.GetLogger()
	pods := observe.NewPods(lifetime, observe.PodOptions{
		Client: metadataClient, Namespaces: namespaces, OnChange: verdicts.Deployment,
		Clock: clusters.Clock, Log: log.WithName("pods"),
	})
	watcher := observe.New(lifetime, observe.Options{
		Client: metadataClient, Label: resourcesv1alpha1.ManagedBy, Value: ptr.Deref(cfg.Controllers.ManagedResource.ManagedByLabelValue, ""),
		Namespaces: namespaces, OnChange: changes.Object, OnVerdict: verdicts.Object, Whole: whole, Pods: pods, As: watchAs(clusters, whole),
		Clock: clusters.Clock, Log: log.WithName("watches"),
	})
	autoscalers := observe.NewAutoscalers(lifetime, observe.AutoscalerOptions{
		Client: dynamicClient, Mapper: clusters.TargetMapper, Namespaces: namespaces, OnChange: changes.Scaled,
		Clock: clusters.Clock, Log: log.WithName("autoscalers"),
	})
	return &sight{watcher: watcher, autoscalers: autoscalers, pods: pods, whole: whole}, nil
}

// watchAs returns the function that creates the clients for watches with the rights of a user. They share the connections of the process.
func watchAs(clusters *process.Clusters, whole *observe.WholeObjects) func(string) (*observe.Clients, error) {
	return func(user string) (*observe.Clients, error) {
		connection := identity.Connection(clusters.TargetHTTPClient, user)
		metadataClient, err := metadata.NewForConfigAndClient(clusters.TargetConfig, connection)
		if err != nil {
			return nil, fmt.Errorf("create metadata client of user %q: %w", user, err)
		}
		wholeAs, err := whole.With(clusters.TargetConfig, connection)
		if err != nil {
			return nil, fmt.Errorf("create client of user %q: %w", user, err)
		}
		return &observe.Clients{Metadata: metadataClient, Whole: wholeAs}, nil
	}
}

// targetNamespaces returns the namespaces to which the connection to the target is restricted; nil if there is no separate connection.
func targetNamespaces(cfg *config.ResourceManagerConfiguration) []string {
	if cfg.TargetClientConnection == nil {
		return nil
	}
	return cfg.TargetClientConnection.Namespaces
}

// addSecrets adds the tracker of the Secrets of the source, which several controllers use, and the Secret controller.
func addSecrets(clusters *process.Clusters, cfg *config.ResourceManagerConfiguration) (*secretversions.Tracker, error) {
	metadataClient, err := metadata.NewForConfigAndClient(clusters.Source.GetConfig(), clusters.Source.GetHTTPClient())
	if err != nil {
		return nil, fmt.Errorf("create metadata client of source cluster: %w", err)
	}
	finalizer := class(cfg).Finalizer()
	tracker := secretversions.New(secretversions.Options{
		Client: metadataClient, Namespaces: cfg.Process().Source.Namespaces, Finalizer: finalizer,
		Log: clusters.Source.GetLogger().WithName("secrets"),
	})
	if err := clusters.Source.Add(tracker); err != nil {
		return nil, fmt.Errorf("follow Secrets of source cluster: %w", err)
	}
	if err := clusters.Source.AddReadyzCheck("source-secrets-sync", tracker.Ready); err != nil {
		return nil, fmt.Errorf("add readiness check of Secrets: %w", err)
	}
	r := &secret.Reconciler{Source: clusters.Source.GetClient(), Secrets: tracker, Finalizer: finalizer}
	if err := r.SetupWithManager(clusters.Source, ptr.Deref(cfg.Controllers.Secret.ConcurrentSyncs, 0)); err != nil {
		return nil, fmt.Errorf("add controller %s: %w", secret.ControllerName, err)
	}
	return tracker, nil
}

// addGarbageCollector adds the garbage collector, if it is enabled.
func addGarbageCollector(clusters *process.Clusters, cfg *config.ResourceManagerConfiguration, registry prometheus.Registerer) error {
	if !cfg.Controllers.GarbageCollector.Enabled {
		return nil
	}
	metadataClient, err := metadata.NewForConfigAndClient(clusters.TargetConfig, clusters.TargetHTTPClient)
	if err != nil {
		return fmt.Errorf("create metadata client of target cluster: %w", err)
	}
	c := garbageCollector(cfg)
	c.Client, c.Mapper, c.Sets, c.SameCluster = metadataClient, clusters.TargetMapper, clusters.Source.GetClient(), clusters.Same.Assume
	if same, known := clusters.Same.Answer(); unseenSets(same || !known, cfg) {
		c.SetsBeyond = clusters.Target.GetAPIReader()
	}
	c.Events = &garbagecollector.Events{Recorder: clusters.Target.GetEventRecorder("managedresource-controller")}
	c.Metrics, c.Clock = garbagecollector.NewMetrics(registry), clusters.Clock
	if err := c.SetupWithManager(clusters.Source); err != nil {
		return fmt.Errorf("add controller %s: %w", garbagecollector.ControllerName, err)
	}
	return nil
}

// unseenSets reports whether the target may contain ManagedResources that the cache of the source does not contain: the target may be the
// source, and the cache may be restricted to namespaces.
func unseenSets(same bool, cfg *config.ResourceManagerConfiguration) bool {
	return same && len(cfg.Process().Source.Namespaces) > 0
}

// garbageCollector returns a collector with the settings of the configuration.
func garbageCollector(cfg *config.ResourceManagerConfiguration) *garbagecollector.Collector {
	return &garbagecollector.Collector{
		Finalizer:  class(cfg).Finalizer(),
		Namespaces: targetNamespaces(cfg),
		MinimumAge: garbagecollector.DefaultMinimumAge,
		Config:     cfg.Controllers.GarbageCollector,
		Own:        cfg.Espalier.ManagedResource,
	}
}

// settings returns the settings of the ManagedResource controller.
func settings(cfg *config.ResourceManagerConfiguration, clusterID, ownNamespace string) applier.Settings {
	return applier.Settings{
		Class: class(cfg), ClusterID: clusterID, Config: cfg.Controllers.ManagedResource, Own: cfg.Espalier.ManagedResource,
		Identity:     identity.Rules{EspalierAccounts: cfg.Espalier.ManagedResource.Accounts},
		OwnNamespace: ownNamespace, Limits: limits(cfg), GarbageCollector: cfg.Controllers.GarbageCollector.Enabled, DeletionPoll: deletionPoll,
	}
}

// class returns the class of the sets that the process serves.
func class(cfg *config.ResourceManagerConfiguration) applier.Class {
	return applier.Class(ptr.Deref(cfg.Controllers.ResourceClass, resourcesv1alpha1.DefaultClass))
}

// resolveClusterID returns the cluster ID. The specification defines the texts of its errors; if a permission is missing, the error also
// says how to grant it.
func resolveClusterID(ctx context.Context, source client.Reader, value string) (string, error) {
	id, err := process.ResolveClusterID(ctx, source, value)
	if apierrors.IsForbidden(err) {
		return "", fmt.Errorf("%w; in the source, allow get on ConfigMap cluster-identity in namespace kube-system, for example with Role "+
			"espalier-managedresource-controller-cluster-identity", err)
	}
	return id, err
}

func limits(cfg *config.ResourceManagerConfiguration) ownership.Limits {
	return ownership.Limits{
		Own: ptr.Deref(cfg.Espalier.ManagedResource.Namespaces, config.EspalierNamespaces{}), TargetNamespaces: targetNamespaces(cfg),
	}
}
