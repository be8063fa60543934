// Package managedresource puts together what keeps ManagedResources: the controllers of the family and the engine that
// they share. It holds no rules of its own.
package managedresource

import (
	"context"
	"fmt"
	"math/rand/v2"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/dynamic"
	clientgoscheme "k8s.io/client-go/kubernetes/scheme"
	"k8s.io/client-go/metadata"
	"k8s.io/utils/clock"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/controller-runtime/pkg/cache"
	"sigs.k8s.io/controller-runtime/pkg/client"

	resourcesv1alpha1 "github.com/espalier-dev/espalier/api/resources/v1alpha1"
	"github.com/espalier-dev/espalier/internal/apply"
	"github.com/espalier-dev/espalier/internal/apply/observe"
	"github.com/espalier-dev/espalier/internal/config"
	"github.com/espalier-dev/espalier/internal/managedresource/applier"
	"github.com/espalier-dev/espalier/internal/process"
)

// deletionPoll is how often pending deletions are looked at when no event tells of them.
const deletionPoll = 5 * time.Second

// Needs says what the family asks of its connections.
func Needs() (process.Needs, error) {
	scheme := runtime.NewScheme()
	for _, add := range []func(*runtime.Scheme) error{clientgoscheme.AddToScheme, resourcesv1alpha1.AddToScheme} {
		if err := add(scheme); err != nil {
			return process.Needs{}, fmt.Errorf("build scheme: %w", err)
		}
	}
	return process.Needs{
		Scheme: scheme,
		SourceCache: cache.Options{
			DefaultTransform: cache.TransformStripManagedFields(),
			ByObject:         map[client.Object]cache.ByObject{secretMetadata(): {Transform: stripSecret}},
		},
		SourceAccess: []process.Requirement{
			{Kind: resourcesv1alpha1.SchemeGroupVersion.WithKind("ManagedResource"), Verbs: []string{"get", "list", "watch", "patch"}},
			{Kind: corev1.SchemeGroupVersion.WithKind("Secret"), Verbs: []string{"get", "list", "watch"}},
		},
	}, nil
}

func secretMetadata() client.Object {
	object := &metav1.PartialObjectMetadata{}
	object.SetGroupVersionKind(schema.GroupVersionKind{Version: "v1", Kind: "Secret"})
	return object
}

// stripSecret keeps of a Secret what tells it from its earlier versions: a source may hold very many.
func stripSecret(item any) (any, error) {
	if object, ok := item.(*metav1.PartialObjectMetadata); ok {
		object.ObjectMeta = metav1.ObjectMeta{Namespace: object.Namespace, Name: object.Name, UID: object.UID, ResourceVersion: object.ResourceVersion}
	}
	return item, nil
}

// Add adds the controllers to the manager of the source cluster. Watches end with lifetime.
func Add(lifetime context.Context, clusters *process.Clusters, cfg *config.ResourceManagerConfiguration, registry prometheus.Registerer) error {
	clusterID, err := process.ResolveClusterID(lifetime, clusters.Source.GetAPIReader(), ptr.Deref(cfg.Controllers.ClusterID, ""))
	if err != nil {
		return err //nolint:wrapcheck // its text is the specification's
	}
	own := cfg.Espalier.ManagedResource
	target, err := apply.NewTarget(clusters.TargetConfig, clusters.TargetHTTPClient, clusters.TargetMapper, ptr.Deref(own.MaxConcurrentRequests, 0), clock.RealClock{})
	if err != nil {
		return fmt.Errorf("connect to target cluster: %w", err)
	}
	changes := applier.NewChanges()
	watcher, autoscalers, err := watches(lifetime, clusters, cfg, changes)
	if err != nil {
		return err
	}
	section := cfg.Controllers.ManagedResource
	r := &applier.Reconciler{
		Source: clusters.Source.GetClient(), SourceLive: clusters.Source.GetAPIReader(), SecretVersions: clusters.Source.GetCache(),
		Target: target, TargetLive: clusters.Target.GetAPIReader(), Watcher: watcher, Autoscalers: autoscalers, Clock: clock.RealClock{}, Jitter: rand.Float64,
		Events:  &applier.Events{Recorder: clusters.Source.GetEventRecorder("managedresource-controller")},
		Metrics: applier.NewMetrics(registry, watcher.Watches),
		Class:   applier.Class(ptr.Deref(cfg.Controllers.ResourceClass, resourcesv1alpha1.DefaultClass)), ClusterID: clusterID,
		ManagedBy: ptr.Deref(section.ManagedByLabelValue, ""), SameCluster: clusters.Same, OwnNamespace: clusters.OwnNamespace,
		Limits: limits(cfg), GarbageCollector: cfg.Controllers.GarbageCollector.Enabled,
		SyncPeriod: section.SyncPeriod.Duration, AlwaysUpdate: ptr.Deref(section.AlwaysUpdate, false),
		AuditPeriod: own.AuditPeriod.Duration, DeletionPoll: deletionPoll, DeletionWaveTimeout: own.DeletionWaveTimeout.Duration,
		Parallel: ptr.Deref(own.MaxConcurrentRequests, 0), MaxDecompressedBytes: ptr.Deref(own.MaxDecompressedBytes, 0),
	}
	if err := r.SetupWithManager(lifetime, clusters.Source, changes, ptr.Deref(section.ConcurrentSyncs, 0), cfg.Process().CacheSyncTimeout); err != nil {
		return fmt.Errorf("add controller %s: %w", applier.ControllerName, err)
	}
	return nil
}

// watches makes what knows the state of the target; nothing runs before a set needs it.
func watches(lifetime context.Context, clusters *process.Clusters, cfg *config.ResourceManagerConfiguration, changes *applier.Changes) (*observe.Watcher, *observe.Autoscalers, error) {
	metadataClient, err := metadata.NewForConfigAndClient(clusters.TargetConfig, clusters.TargetHTTPClient)
	if err != nil {
		return nil, nil, fmt.Errorf("create metadata client of target cluster: %w", err)
	}
	dynamicClient, err := dynamic.NewForConfigAndClient(clusters.TargetConfig, clusters.TargetHTTPClient)
	if err != nil {
		return nil, nil, fmt.Errorf("create client of target cluster: %w", err)
	}
	namespaces := targetNamespaces(cfg)
	watcher := observe.New(lifetime, observe.Options{
		Client: metadataClient, Label: resourcesv1alpha1.ManagedBy, Value: ptr.Deref(cfg.Controllers.ManagedResource.ManagedByLabelValue, ""),
		Namespaces: namespaces, OnChange: changes.Object, Clock: clock.RealClock{}, Log: clusters.Source.GetLogger().WithName("watches"),
	})
	autoscalers := observe.NewAutoscalers(lifetime, observe.AutoscalerOptions{
		Client: dynamicClient, Mapper: clusters.TargetMapper, Namespaces: namespaces, OnChange: changes.Scaled,
		Clock: clock.RealClock{}, Log: clusters.Source.GetLogger().WithName("autoscalers"),
	})
	return watcher, autoscalers, nil
}

// targetNamespaces are those that the connection to the target is restricted to; nil if there is none of its own.
func targetNamespaces(cfg *config.ResourceManagerConfiguration) []string {
	if cfg.TargetClientConnection == nil {
		return nil
	}
	return cfg.TargetClientConnection.Namespaces
}

func limits(cfg *config.ResourceManagerConfiguration) applier.Limits {
	allowed := applier.Limits{ClusterScoped: true, TargetNamespaces: targetNamespaces(cfg)}
	if own := cfg.Espalier.ManagedResource.Namespaces; own != nil {
		allowed.SetNamespaces, allowed.ObjectNamespaces = own.Sets, own.Objects
		allowed.ClusterScoped = ptr.Deref(own.ClusterScoped, true)
	}
	return allowed
}
