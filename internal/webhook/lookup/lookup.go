// Package lookup answers what handlers ask of the target cluster: annotations of namespaces, which autoscaler scales a workload, taints of
// Nodes, and whether a ServiceAccount wants its tokens mounted. It writes nothing.
//
// Answers come from watches that keep no more than that, so that no request is sent while they are up to date. They are
// optional: whatever a cache does not hold yet, cannot hold, or does not find by name is read from the API server at once,
// and no request ever waits for a cache. A cache may be some milliseconds behind the API server, because watches are.
// A caller that needs the current state reads it from the API server (MaxReplicasLive).
package lookup

import (
	"context"
	"fmt"

	autoscalingv2 "k8s.io/api/autoscaling/v2"
	corev1 "k8s.io/api/core/v1"
	"sigs.k8s.io/controller-runtime/pkg/cache"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/espalier-dev/espalier/internal/process"
	"github.com/espalier-dev/espalier/internal/webhook/highavailability"
)

// Lookups read the target cluster, for handlers. It is safe for concurrent use.
type Lookups struct {
	cached, live client.Reader

	// Those of kinds that are not watched are nil.
	namespaces, autoscalers, nodes, serviceAccounts informer

	hvpas  *hvpas
	taints taints
}

// informer can be asked whether the cache of its kind may be.
type informer interface{ HasSynced() bool }

// New starts to watch, in the cache of the target, what the enabled handlers ask for, and adds to the manager what follows
// Hvpas as their kind comes and goes; it runs on every replica. Lifetime is that of the process. The target must have been
// connected with the options of Cache.
func New(lifetime context.Context, clusters *process.Clusters, enabled Enabled) (*Lookups, error) {
	l := &Lookups{cached: clusters.Target.GetCache(), live: clusters.Target.GetAPIReader()}
	if enabled.HighAvailability {
		if err := l.watchScaling(lifetime, clusters); err != nil {
			return nil, err
		}
	}
	if enabled.SystemComponents {
		watched, err := watch(lifetime, clusters, &corev1.Node{})
		if err != nil {
			return nil, fmt.Errorf("watch Nodes: %w", err)
		}
		if _, err := watched.AddEventHandler(l.taints.handler()); err != nil {
			return nil, fmt.Errorf("watch Nodes: %w", err)
		}
		l.nodes = watched
	}
	if enabled.TokenMount {
		watched, err := watch(lifetime, clusters, &corev1.ServiceAccount{})
		if err != nil {
			return nil, fmt.Errorf("watch ServiceAccounts: %w", err)
		}
		l.serviceAccounts = watched
	}
	return l, nil
}

func (l *Lookups) watchScaling(lifetime context.Context, clusters *process.Clusters) error {
	namespaces, err := watch(lifetime, clusters, namespaceMetadata())
	if err != nil {
		return fmt.Errorf("watch Namespaces: %w", err)
	}
	err = clusters.Target.GetFieldIndexer().IndexField(lifetime, &autoscalingv2.HorizontalPodAutoscaler{}, byTarget, targetIndex)
	if err != nil {
		return fmt.Errorf("watch HorizontalPodAutoscalers: %w", err)
	}
	autoscalers, err := watch(lifetime, clusters, &autoscalingv2.HorizontalPodAutoscaler{})
	if err != nil {
		return fmt.Errorf("watch HorizontalPodAutoscalers: %w", err)
	}
	l.namespaces, l.autoscalers = namespaces, autoscalers
	if l.hvpas, err = newHvpas(clusters.TargetConfig, clusters.TargetHTTPClient, clusters.TargetMapper); err != nil {
		return err
	}
	if err := clusters.Source.Add(l.hvpas); err != nil {
		return fmt.Errorf("add watch of Hvpas to manager: %w", err)
	}
	return nil
}

func watch(lifetime context.Context, clusters *process.Clusters, object client.Object) (cache.Informer, error) {
	return clusters.Target.GetCache().GetInformer(lifetime, object, cache.BlockUntilSynced(false))
}

// get reads one object from its cache if that is there and has it, else from the API server, whose errors it returns.
func (l *Lookups) get(ctx context.Context, from informer, key client.ObjectKey, into client.Object) error {
	if from != nil && from.HasSynced() && l.cached.Get(ctx, key, into) == nil {
		return nil
	}
	return l.live.Get(ctx, key, into) // the response contains this text
}

// list reads all objects that both options select: from the cache by the first, from the API server by the second.
func (l *Lookups) list(ctx context.Context, from informer, into client.ObjectList, cached, live []client.ListOption) error {
	if from != nil && from.HasSynced() && l.cached.List(ctx, into, cached...) == nil {
		return nil
	}
	return l.live.List(ctx, into, live...)
}

// +kubebuilder:rbac:groups="",resources=namespaces,verbs=get;list;watch,roleName=espalier-webhook-server-target

// Annotations implements highavailability.Namespaces.
func (l *Lookups) Annotations(ctx context.Context, name string) (map[string]string, error) {
	namespace := namespaceMetadata()
	if err := l.get(ctx, l.namespaces, client.ObjectKey{Name: name}, namespace); err != nil {
		return nil, err
	}
	return namespace.Annotations, nil
}

// +kubebuilder:rbac:groups="",resources=serviceaccounts,verbs=get;list;watch,roleName=espalier-webhook-server-target

// Automount returns automountServiceAccountToken of a ServiceAccount; nil if it is not set. The error is NotFound if there is no
// such ServiceAccount.
func (l *Lookups) Automount(ctx context.Context, namespace, name string) (*bool, error) {
	account := &corev1.ServiceAccount{}
	if err := l.get(ctx, l.serviceAccounts, client.ObjectKey{Namespace: namespace, Name: name}, account); err != nil {
		return nil, err
	}
	return account.AutomountServiceAccountToken, nil
}

// +kubebuilder:rbac:groups=autoscaling,resources=horizontalpodautoscalers,verbs=list;watch,roleName=espalier-webhook-server-target

// MaxReplicas implements highavailability.Scaling. HorizontalPodAutoscalers come before Hvpas; of several the first by name
// counts.
func (l *Lookups) MaxReplicas(ctx context.Context, target highavailability.Target) (limit int32, scaled bool, err error) {
	return l.maxReplicas(ctx, l.autoscalers, target, l.hvpas.find)
}

// MaxReplicasLive implements highavailability.Scaling. Only that Hvpas are not served at all is taken from a watch.
func (l *Lookups) MaxReplicasLive(ctx context.Context, target highavailability.Target) (limit int32, scaled bool, err error) {
	return l.maxReplicas(ctx, nil, target, l.hvpas.findLive)
}

// maxReplicas lists HorizontalPodAutoscalers from the given lister, and finds Hvpas if none of them scales the target.
func (l *Lookups) maxReplicas(
	ctx context.Context, from informer, target highavailability.Target, hvpa func(context.Context, highavailability.Target) (scaler, error),
) (limit int32, scaled bool, err error) {
	if target.Name == "" {
		return 0, false, nil
	}
	list := &autoscalingv2.HorizontalPodAutoscalerList{}
	err = l.list(ctx, from, list,
		[]client.ListOption{client.InNamespace(target.Namespace), client.MatchingFields{byTarget: indexKey(target)}},
		[]client.ListOption{client.InNamespace(target.Namespace)})
	if err != nil {
		return 0, false, fmt.Errorf("failed to list all HPAs: %w", err)
	}
	first := scaler{}
	for i := range list.Items {
		first = first.before(scalerOf(&list.Items[i]), target)
	}
	if !first.scales && l.hvpas != nil {
		if first, err = hvpa(ctx, target); err != nil {
			return 0, false, fmt.Errorf("failed to list all HVPAs: %w", err)
		}
	}
	return first.limit, first.scales, nil
}

// byTarget is the index of HorizontalPodAutoscalers by the object that they scale.
const byTarget = "spec.scaleTargetRef"

func targetIndex(object client.Object) []string {
	if autoscaler, ok := object.(*autoscalingv2.HorizontalPodAutoscaler); ok {
		return []string{indexKey(scalerOf(autoscaler).target)}
	}
	return nil
}

// indexKey names a target within its namespace.
func indexKey(target highavailability.Target) string {
	return target.APIVersion + "/" + target.Kind + "/" + target.Name
}

// The handlers' look-ups.
var (
	_ highavailability.Namespaces = &Lookups{}
	_ highavailability.Scaling    = &Lookups{}
)
