// Package lookup reads objects of the target cluster for handlers: annotations of Namespaces, the autoscaler of a workload, taints of
// Nodes, and whether a ServiceAccount wants its tokens mounted. It writes nothing.
//
// The look-ups read from caches that contain only the needed fields. The caches are optional: while a cache is not synced, or if it does
// not contain the object of the look-up, the object is read from the API server at once. No look-up waits for a cache. A cache may be some
// milliseconds behind the API server. A caller that needs the current state uses a live look-up (MaxReplicasLive).
package lookup

import (
	"context"
	"fmt"

	autoscalingv2 "k8s.io/api/autoscaling/v2"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/cache"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/espalier-dev/espalier/internal/process"
	"github.com/espalier-dev/espalier/internal/webhook/highavailability"
)

// Lookups reads the target cluster for handlers. It is safe for concurrent use.
type Lookups struct {
	cached, live client.Reader

	// informers contains the informer of each watched kind, by the name of the kind.
	informers map[string]informer

	hvpas  *hvpas
	taints taints
}

// informer reports whether the cache of its kind is synced.
type informer interface{ HasSynced() bool }

// New starts to watch, in the cache of the target, the kinds that the enabled handlers need. It also adds a runnable to the manager that
// watches Hvpas while their kind is served, in every replica. The argument lifetime is the context of the process. The target must have
// been connected with the options of Cache.
func New(lifetime context.Context, clusters *process.Clusters, enabled Enabled) (*Lookups, error) {
	l := &Lookups{cached: clusters.Target.GetCache(), live: clusters.Target.GetAPIReader(), informers: map[string]informer{}}
	for _, each := range enabled.watched() {
		if err := l.watch(lifetime, clusters, each); err != nil {
			return nil, fmt.Errorf("watch %ss: %w", each.kind.Kind, err)
		}
	}
	if !enabled.HighAvailability {
		return l, nil
	}
	var err error
	if l.hvpas, err = newHvpas(clusters.TargetConfig, clusters.TargetHTTPClient, clusters.TargetMapper); err != nil {
		return nil, err
	}
	if err := clusters.Source.Add(l.hvpas); err != nil {
		return nil, fmt.Errorf("add watch of Hvpas to manager: %w", err)
	}
	return l, nil
}

func (l *Lookups) watch(lifetime context.Context, clusters *process.Clusters, each watched) error {
	if each.index != nil {
		if err := clusters.Target.GetFieldIndexer().IndexField(lifetime, each.object, byTarget, each.index); err != nil {
			return err
		}
	}
	found, err := clusters.Target.GetCache().GetInformer(lifetime, each.object, cache.BlockUntilSynced(false))
	if err != nil {
		return err
	}
	if each.kind.Kind == nodes {
		if _, err := found.AddEventHandler(l.taints.handler()); err != nil {
			return err
		}
	}
	l.informers[each.kind.Kind] = found
	return nil
}

// synced reports whether the cache of a kind is synced; false if the kind is not watched.
func (l *Lookups) synced(kind string) bool {
	found := l.informers[kind]
	return found != nil && found.HasSynced()
}

// get reads one object from the cache of its kind if that cache is synced and contains the object. Otherwise it reads the object from the
// API server, and returns the errors of the API server.
func (l *Lookups) get(ctx context.Context, kind string, key client.ObjectKey, into client.Object) error {
	if l.synced(kind) && l.cached.Get(ctx, key, into) == nil {
		return nil
	}
	return l.live.Get(ctx, key, into) // the response contains this text
}

// For webhooks.highAvailabilityConfig, whose settings for a workload are annotations of the namespace.
// +kubebuilder:rbac:groups="",resources=namespaces,verbs=get;list;watch,roleName=espalier-webhook-server-target

// Annotations implements highavailability.Namespaces.
func (l *Lookups) Annotations(ctx context.Context, name string) (map[string]string, error) {
	namespace := namespaceMetadata()
	if err := l.get(ctx, namespaces, client.ObjectKey{Name: name}, namespace); err != nil {
		return nil, err
	}
	return namespace.Annotations, nil
}

// For webhooks.projectedTokenMount, which mounts a token only if the ServiceAccount of the Pod forbids automounting.
// +kubebuilder:rbac:groups="",resources=serviceaccounts,verbs=get;list;watch,roleName=espalier-webhook-server-target

// Automount returns automountServiceAccountToken of a ServiceAccount; nil if it is not set. It returns the error NotFound if the
// ServiceAccount does not exist.
func (l *Lookups) Automount(ctx context.Context, name types.NamespacedName) (*bool, error) {
	account := &corev1.ServiceAccount{}
	if err := l.get(ctx, serviceAccounts, name, account); err != nil {
		return nil, err
	}
	return account.AutomountServiceAccountToken, nil
}

// For webhooks.highAvailabilityConfig, which must know whether a HorizontalPodAutoscaler scales a workload, and up to how many replicas.
// +kubebuilder:rbac:groups=autoscaling,resources=horizontalpodautoscalers,verbs=list;watch,roleName=espalier-webhook-server-target

// MaxReplicas implements highavailability.Scaling. HorizontalPodAutoscalers take precedence over Hvpas; of several autoscalers of one kind,
// the first by name counts.
func (l *Lookups) MaxReplicas(ctx context.Context, target highavailability.Target) (limit int32, scaled bool, err error) {
	return l.maxReplicas(ctx, l.synced(autoscalers), target, l.hvpas.find)
}

// MaxReplicasLive implements highavailability.Scaling. It reads no cache, except to find out whether the definition of Hvpas exists.
func (l *Lookups) MaxReplicasLive(ctx context.Context, target highavailability.Target) (limit int32, scaled bool, err error) {
	return l.maxReplicas(ctx, false, target, l.hvpas.findLive)
}

// maxReplicas reads HorizontalPodAutoscalers, and calls hvpa if none of them scales the target.
func (l *Lookups) maxReplicas(
	ctx context.Context, cached bool, target highavailability.Target, hvpa func(context.Context, highavailability.Target) (scaler, error),
) (limit int32, scaled bool, err error) {
	if target.Name == "" {
		return 0, false, nil
	}
	list, within := &autoscalingv2.HorizontalPodAutoscalerList{}, client.InNamespace(target.Namespace)
	if !cached || l.cached.List(ctx, list, within, client.MatchingFields{byTarget: indexKey(target)}) != nil {
		if err = l.live.List(ctx, list, within); err != nil {
			return 0, false, fmt.Errorf("failed to list all HPAs: %w", err)
		}
	}
	first := scaler{}
	for i := range list.Items {
		first = first.firstOf(scalerOf(&list.Items[i]), target)
	}
	if !first.scales && l.hvpas != nil {
		if first, err = hvpa(ctx, target); err != nil {
			return 0, false, fmt.Errorf("failed to list all HVPAs: %w", err)
		}
	}
	return first.limit, first.scales, nil
}

// byTarget is the name of the index of HorizontalPodAutoscalers and Hvpas by the object that they scale.
const byTarget = "spec.scaleTargetRef"

func targetIndex(object client.Object) []string {
	if autoscaler, ok := object.(*autoscalingv2.HorizontalPodAutoscaler); ok {
		return []string{indexKey(scalerOf(autoscaler).target)}
	}
	return nil
}

// indexKey returns the key of a target in the index, without its namespace.
func indexKey(target highavailability.Target) string {
	return target.APIVersion + "/" + target.Kind + "/" + target.Name
}
