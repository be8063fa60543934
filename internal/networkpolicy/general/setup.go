package general

import (
	"cmp"
	"context"
	"time"

	corev1 "k8s.io/api/core/v1"
	discoveryv1 "k8s.io/api/discovery/v1"
	networkingv1 "k8s.io/api/networking/v1"
	"k8s.io/apimachinery/pkg/api/equality"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/fields"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/types"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/cache"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/cluster"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"
	"sigs.k8s.io/controller-runtime/pkg/source"

	operatorv1alpha1 "github.com/espalier-dev/espalier/api/operator/v1alpha1"
	resourcesv1alpha1 "github.com/espalier-dev/espalier/api/resources/v1alpha1"
	"github.com/espalier-dev/espalier/internal/networkpolicy/desired"
	"github.com/espalier-dev/espalier/internal/process"
)

// ControllerName names the controller in logs and metrics.
const ControllerName = "general-networkpolicy"

// The pause after a failure grows from shortestPause to longestPause.
const (
	shortestPause = 5 * time.Millisecond
	longestPause  = time.Minute
)

// CacheOptions restrict the cache of Cached to the policies of an instance and to the objects from which Facts are read. Visible are the
// namespaces in which policies are read; an empty list means all. If gardens is true, the cache also contains Gardens, whose API the
// cluster must have.
func CacheOptions(instance string, visible []string, gardens bool) (cache.Options, error) {
	ours, err := desired.OfInstance(resourcesv1alpha1.NetworkingGeneral+"=true", instance)
	if err != nil {
		return cache.Options{}, err
	}
	policies := cache.ByObject{Label: ours, Transform: process.Keeping(keepOfPolicy)}
	for _, each := range visible {
		if policies.Namespaces == nil {
			policies.Namespaces = map[string]cache.Config{}
		}
		policies.Namespaces[each] = cache.Config{}
	}
	inDefault := map[string]cache.Config{corev1.NamespaceDefault: {}}
	options := cache.Options{ByObject: map[client.Object]cache.ByObject{
		&networkingv1.NetworkPolicy{}: policies,
		&discoveryv1.EndpointSlice{}: {
			Namespaces: inDefault, Label: labels.SelectorFromSet(labels.Set{discoveryv1.LabelServiceName: apiServerService}),
		},
		&corev1.Service{}: {Namespaces: inDefault, Field: fields.OneTermEqualSelector(metav1.ObjectNameField, apiServerService)},
	}}
	if gardens {
		options.ByObject[&operatorv1alpha1.Garden{}] = cache.ByObject{Transform: process.Keeping(keepOfGarden)}
	}
	return options, nil
}

func keepOfPolicy(policy *networkingv1.NetworkPolicy) *networkingv1.NetworkPolicy {
	kept := &networkingv1.NetworkPolicy{TypeMeta: policy.TypeMeta, ObjectMeta: process.Identity(policy), Spec: policy.Spec}
	kept.Labels = policy.Labels
	const description = resourcesv1alpha1.GardenerDescription
	kept.Annotations = map[string]string{description: policy.Annotations[description]}
	return kept
}

func keepOfGarden(garden *operatorv1alpha1.Garden) *operatorv1alpha1.Garden {
	kept := &operatorv1alpha1.Garden{TypeMeta: garden.TypeMeta, ObjectMeta: process.Identity(garden)}
	kept.Spec.RuntimeCluster.Networking = garden.Spec.RuntimeCluster.Networking
	return kept
}

func newNamespace() *metav1.PartialObjectMetadata {
	return &metav1.PartialObjectMetadata{TypeMeta: metav1.TypeMeta{APIVersion: "v1", Kind: "Namespace"}}
}

// SetupWithManager adds the controller to the manager of the source cluster. The argument namespaces contains the cache of namespaces of
// the target cluster, and the argument own contains the caches of CacheOptions.
func (r *Reconciler) SetupWithManager(mgr ctrl.Manager, namespaces, own cluster.Cluster, workers int) error {
	caches := own.GetCache()
	b := ctrl.NewControllerManagedBy(mgr).
		Named(ControllerName).
		WatchesRawSource(source.Kind(namespaces.GetCache(), newNamespace(), process.OnEvent(r.namespaceEvent))).
		WatchesRawSource(source.Kind(caches, &networkingv1.NetworkPolicy{}, process.OnEvent(policyEvent))).
		WatchesRawSource(source.Kind(caches, &discoveryv1.EndpointSlice{}, process.OnEvent(everyNamespace(r, endpointsChanged)))).
		WatchesRawSource(source.Kind(caches, &corev1.Service{}, process.OnEvent(everyNamespace(r, addressesChanged))))
	if r.ServerName != nil {
		b = b.WatchesRawSource(source.Func(func(ctx context.Context, q process.Queue) error {
			go r.ServerName.follow(ctx, func() { r.enqueueAll(ctx, q) })
			return nil
		}))
	}
	if r.Own.General.NetworksOfGarden {
		b = b.WatchesRawSource(source.Kind(caches, &operatorv1alpha1.Garden{}, process.OnEvent(everyNamespace(r, networksChanged))))
	}
	return b.WithOptions(process.ControllerOptions(workers, process.Deadline, shortestPause, longestPause)).Complete(r)
}

func enqueue(q process.Queue, namespace string) {
	q.Add(reconcile.Request{NamespacedName: types.NamespacedName{Name: namespace}})
}

// namespaceEvent enqueues a namespace whose scope or deletion has changed.
func (r *Reconciler) namespaceEvent(_ context.Context, before, after *metav1.PartialObjectMetadata, q process.Queue) {
	if before == nil || after == nil || before.UID != after.UID || r.scopeOf(before) != r.scopeOf(after) ||
		(before.DeletionTimestamp == nil) != (after.DeletionTimestamp == nil) {
		enqueue(q, cmp.Or(after, before).Name)
	}
}

// policyEvent enqueues the namespace of a policy, for the repair of changes.
func policyEvent(_ context.Context, before, after *networkingv1.NetworkPolicy, q process.Queue) {
	enqueue(q, cmp.Or(after, before).Namespace)
}

func endpointsChanged(before, after *discoveryv1.EndpointSlice) bool {
	return !equality.Semantic.DeepEqual(before.Endpoints, after.Endpoints) || !equality.Semantic.DeepEqual(before.Ports, after.Ports)
}

func addressesChanged(before, after *corev1.Service) bool {
	return !equality.Semantic.DeepEqual(before.Spec, after.Spec)
}

func networksChanged(before, after *operatorv1alpha1.Garden) bool {
	return !equality.Semantic.DeepEqual(before.Spec, after.Spec)
}

// everyNamespace returns a function for events of objects from which Facts are read: a change enqueues all namespaces with policies.
func everyNamespace[T interface {
	client.Object
	comparable
}](r *Reconciler, changed func(before, after T) bool) func(context.Context, T, T, process.Queue) {
	return func(ctx context.Context, before, after T, q process.Queue) {
		var none T
		if before == none || after == none || changed(before, after) {
			r.enqueueAll(ctx, q)
		}
	}
}

// enqueueAll enqueues all namespaces that get policies.
func (r *Reconciler) enqueueAll(ctx context.Context, q process.Queue) {
	list := &metav1.PartialObjectMetadataList{TypeMeta: metav1.TypeMeta{APIVersion: "v1", Kind: "NamespaceList"}}
	if err := r.Namespaces.List(ctx, list, client.UnsafeDisableDeepCopy); err != nil {
		return // which happens only before the cache has started, and then every namespace is enqueued anyway
	}
	for i := range list.Items {
		if r.scopeOf(&list.Items[i]) != None {
			enqueue(q, list.Items[i].Name)
		}
	}
}
