// Package managedresource assembles the controllers of ManagedResources and the engine that they share. It contains no rules of its own.
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
	clientgoscheme "k8s.io/client-go/kubernetes/scheme"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/controller-runtime/pkg/cache"
	"sigs.k8s.io/controller-runtime/pkg/client"

	resourcesv1alpha1 "github.com/espalier-dev/espalier/api/resources/v1alpha1"
	"github.com/espalier-dev/espalier/internal/apply"
	"github.com/espalier-dev/espalier/internal/apply/observe"
	"github.com/espalier-dev/espalier/internal/config"
	"github.com/espalier-dev/espalier/internal/managedresource/applier"
	"github.com/espalier-dev/espalier/internal/managedresource/health"
	"github.com/espalier-dev/espalier/internal/managedresource/ownership"
	"github.com/espalier-dev/espalier/internal/managedresource/status"
	"github.com/espalier-dev/espalier/internal/process"
)

// deletionPoll is how often pending deletions are checked if there is no event.
const deletionPoll = 5 * time.Second

// Needs returns what the family needs from its connections.
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
	if limits(cfg).SetSelector != nil {
		access = append(access, process.Requirement{
			Kind: corev1.SchemeGroupVersion.WithKind("Namespace"), Verbs: []string{"list", "watch"},
			Otherwise: "remove espalier.managedResource.namespaces.setSelector and list the namespaces in espalier.managedResource.namespaces.sets",
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

// Add adds the controllers to the manager of the source cluster. Watches end with lifetime.
func Add(lifetime context.Context, clusters *process.Clusters, cfg *config.ResourceManagerConfiguration,
	registry prometheus.Registerer,
) error {
	clusterID, err := resolveClusterID(lifetime, clusters.Source.GetAPIReader(), ptr.Deref(cfg.Controllers.ClusterID, ""))
	if err != nil {
		return err
	}
	own := cfg.Espalier.ManagedResource
	target, err := apply.NewTarget(clusters.TargetConfig, clusters.TargetHTTPClient, clusters.TargetMapper,
		ptr.Deref(own.MaxConcurrentRequests, 0), clusters.Clock)
	if err != nil {
		return fmt.Errorf("connect to target cluster: %w", err)
	}
	secrets, err := addSecrets(clusters, cfg)
	if err != nil {
		return err
	}
	changes := applier.NewChanges()
	verdicts := health.NewVerdicts(clusters.Clock, changes.Users)
	sight, err := watches(lifetime, clusters, cfg, changes, verdicts)
	if err != nil {
		return err
	}
	section, ledger := cfg.Controllers.ManagedResource, changes.Ledger(class(cfg))
	judge := &health.Reconciler{
		Source: clusters.Source.GetClient(), Target: target, TargetLive: clusters.Target.GetAPIReader(),
		Watcher: sight.watcher, Pods: sight.pods, Whole: sight.whole, Ledger: ledger, Verdicts: verdicts,
		Metrics: health.NewMetrics(registry, clusters.Source.GetCache(), ledger.Responsible), Clock: clusters.Clock,
		Kstatus: ptr.Deref(own.Kstatus, false), SyncPeriod: cfg.Controllers.Health.SyncPeriod.Duration,
	}
	r := &applier.Reconciler{
		Source: clusters.Source.GetClient(), SourceLive: clusters.Source.GetAPIReader(), SecretVersions: secrets,
		Target: target, TargetLive: clusters.Target.GetAPIReader(), Watcher: sight.watcher, Autoscalers: sight.autoscalers, Clock: clusters.Clock,
		Jitter:  rand.Float64,
		Events:  &applier.Events{Recorder: clusters.Source.GetEventRecorder("managedresource-controller")},
		Metrics: applier.NewMetrics(registry, sight.watcher.Watches, secrets.Kept),
		Class:   class(cfg), ClusterID: clusterID,
		ManagedBy: ptr.Deref(section.ManagedByLabelValue, ""), SameCluster: clusters.Same.Assume, OwnNamespace: clusters.OwnNamespace,
		Limits: limits(cfg), GarbageCollector: cfg.Controllers.GarbageCollector.Enabled,
		SyncPeriod: section.SyncPeriod.Duration, AlwaysUpdate: ptr.Deref(section.AlwaysUpdate, false),
		AuditPeriod: own.AuditPeriod.Duration, DeletionPoll: deletionPoll, DeletionWaveTimeout: own.DeletionWaveTimeout.Duration,
		Parallel: ptr.Deref(own.MaxConcurrentRequests, 0), MaxDecompressedBytes: ptr.Deref(own.MaxDecompressedBytes, 0),
		Kstatus: ptr.Deref(own.Kstatus, false), Registered: sight.whole.IsRegistered, Concluded: verdicts.Set, Judge: judge.Judge,
	}
	if err := r.SetupWithManager(lifetime, clusters.Source, changes, ptr.Deref(section.ConcurrentSyncs, 0)); err != nil {
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

// class returns the class of the sets that the process serves.
func class(cfg *config.ResourceManagerConfiguration) applier.Class {
	return applier.Class(ptr.Deref(cfg.Controllers.ResourceClass, resourcesv1alpha1.DefaultClass))
}

// resolveClusterID returns the cluster ID. The specification defines the texts of its errors; if a right is missing, the remedy follows.
func resolveClusterID(ctx context.Context, source client.Reader, value string) (string, error) {
	id, err := process.ResolveClusterID(ctx, source, value)
	if apierrors.IsForbidden(err) {
		return "", fmt.Errorf("%w; in the source, allow get on ConfigMap cluster-identity in namespace kube-system, for example with Role "+
			"espalier-managedresource-controller-cluster-identity", err)
	}
	return id, err
}

func limits(cfg *config.ResourceManagerConfiguration) ownership.Limits {
	allowed := ownership.Limits{ClusterScoped: true, TargetNamespaces: targetNamespaces(cfg)}
	if own := cfg.Espalier.ManagedResource.Namespaces; own != nil {
		allowed.SetNamespaces, allowed.SetSelector, allowed.ObjectNamespaces = own.Sets, own.SetSelector, own.Objects
		allowed.ClusterScoped = ptr.Deref(own.ClusterScoped, true)
	}
	return allowed
}
