package criticalcomponents

import (
	"context"
	"fmt"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	storagev1 "k8s.io/api/storage/v1"
	"k8s.io/apimachinery/pkg/api/equality"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/util/workqueue"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/cache"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/cluster"
	"sigs.k8s.io/controller-runtime/pkg/controller"
	"sigs.k8s.io/controller-runtime/pkg/event"
	"sigs.k8s.io/controller-runtime/pkg/handler"
	"sigs.k8s.io/controller-runtime/pkg/log"
	"sigs.k8s.io/controller-runtime/pkg/predicate"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"
	"sigs.k8s.io/controller-runtime/pkg/source"

	resourcesv1alpha1 "github.com/espalier-dev/espalier/api/resources/v1alpha1"
)

// ControllerName names the controller in logs and metrics.
const ControllerName = "node"

const (
	// deadline limits one reconciliation.
	deadline = 3 * time.Minute
	// The pause after a failure grows from shortestPause to longestPause.
	shortestPause = 100 * time.Millisecond
	longestPause  = time.Minute
)

// Indexes of the caches. The first name is also a field selector of the API server for Pods, so that live reads can use it.
const (
	podsByNode   = "spec.nodeName"
	nodesWaiting = "waiting"
	yes          = "true"
)

// CacheOptions restrict the caches of the target to critical Pods and DaemonSets, and all kinds to the relevant fields.
func CacheOptions() map[client.Object]cache.ByObject {
	critical := labels.SelectorFromSet(labels.Set{resourcesv1alpha1.CriticalComponent: resourcesv1alpha1.CriticalComponentValue})
	return map[client.Object]cache.ByObject{
		&corev1.Node{}:       {Transform: trim},
		&corev1.Pod{}:        {Transform: trim, Label: critical},
		&appsv1.DaemonSet{}:  {Transform: trim, Label: critical},
		&storagev1.CSINode{}: {Transform: trim},
	}
}

// SetupWithManager adds the controller to the manager. It works in the target cluster, whose caches need CacheOptions.
func (r *Reconciler) SetupWithManager(ctx context.Context, mgr ctrl.Manager, target cluster.Cluster, workers int) error {
	r.waiting = newWaiting(r.Metrics, r.Backoff)
	if err := addIndexes(ctx, target.GetFieldIndexer()); err != nil {
		return err
	}
	caches := target.GetCache()
	return ctrl.NewControllerManagedBy(mgr).
		Named(ControllerName).
		WatchesRawSource(source.Kind(caches, &corev1.Node{}, r.nodes(), waits())).
		WatchesRawSource(source.Kind(caches, &corev1.Pod{}, handler.TypedEnqueueRequestsFromMapFunc(r.nodeOfPod), changed[*corev1.Pod]())).
		WatchesRawSource(source.Kind(caches, &appsv1.DaemonSet{}, handler.TypedEnqueueRequestsFromMapFunc(r.allNodes),
			changed[*appsv1.DaemonSet]())).
		WatchesRawSource(source.Kind(caches, &storagev1.CSINode{}, handler.TypedEnqueueRequestsFromMapFunc(r.nodeOfCSINode),
			changed[*storagev1.CSINode]())).
		WithOptions(controller.Options{
			MaxConcurrentReconciles: workers,
			ReconciliationTimeout:   deadline,
			RateLimiter:             workqueue.NewTypedItemExponentialFailureRateLimiter[reconcile.Request](shortestPause, longestPause),
		}).
		Complete(r)
}

func addIndexes(ctx context.Context, indexer client.FieldIndexer) error {
	err := indexer.IndexField(ctx, &corev1.Pod{}, podsByNode, func(object client.Object) []string {
		if pod, ok := object.(*corev1.Pod); ok && pod.Spec.NodeName != "" {
			return []string{pod.Spec.NodeName}
		}
		return nil
	})
	if err != nil {
		return fmt.Errorf("index Pods by Node: %w", err)
	}
	err = indexer.IndexField(ctx, &corev1.Node{}, nodesWaiting, func(object client.Object) []string {
		if node, ok := object.(*corev1.Node); ok && tainted(node) {
			return []string{yes}
		}
		return nil
	})
	if err != nil {
		return fmt.Errorf("index Nodes by taint: %w", err)
	}
	return nil
}

// nodes enqueues Nodes, and records those that get their taint again.
func (r *Reconciler) nodes() handler.TypedEventHandler[*corev1.Node, reconcile.Request] {
	enqueue := &handler.TypedEnqueueRequestForObject[*corev1.Node]{}
	return handler.TypedFuncs[*corev1.Node, reconcile.Request]{
		CreateFunc: enqueue.Create, DeleteFunc: enqueue.Delete, GenericFunc: enqueue.Generic,
		UpdateFunc: func(ctx context.Context, e event.TypedUpdateEvent[*corev1.Node],
			queue workqueue.TypedRateLimitingInterface[reconcile.Request],
		) {
			if !tainted(e.ObjectOld) && tainted(e.ObjectNew) && e.ObjectOld.UID == e.ObjectNew.UID {
				r.waiting.taintedAgain(e.ObjectNew, r.Clock.Now())
			}
			enqueue.Update(ctx, e, queue)
		},
	}
}

// nodeOfPod returns the Pod's Node, if it has the taint. A Node that is not in the cache yet is enqueued by its own event.
func (r *Reconciler) nodeOfPod(ctx context.Context, pod *corev1.Pod) []reconcile.Request {
	return r.ifWaiting(ctx, pod.Spec.NodeName)
}

func (r *Reconciler) nodeOfCSINode(ctx context.Context, csiNode *storagev1.CSINode) []reconcile.Request {
	return r.ifWaiting(ctx, csiNode.Name)
}

func (r *Reconciler) ifWaiting(ctx context.Context, name string) []reconcile.Request {
	node := &corev1.Node{}
	if name == "" || r.Client.Get(ctx, client.ObjectKey{Name: name}, node) != nil || !tainted(node) {
		return nil
	}
	return []reconcile.Request{{NamespacedName: types.NamespacedName{Name: name}}}
}

// allNodes returns all Nodes with the taint: the DaemonSet may concern any of them.
func (r *Reconciler) allNodes(ctx context.Context, _ *appsv1.DaemonSet) []reconcile.Request {
	nodes := &corev1.NodeList{}
	if err := r.Client.List(ctx, nodes, client.MatchingFields{nodesWaiting: yes}); err != nil {
		log.FromContext(ctx).Error(err, "Could not list the Nodes that wait; they are looked at when their pause is over")
		return nil
	}
	requests := make([]reconcile.Request, 0, len(nodes.Items))
	for i := range nodes.Items {
		requests = append(requests, reconcile.Request{NamespacedName: types.NamespacedName{Name: nodes.Items[i].Name}})
	}
	return requests
}

// changed passes updates that change a cached field of an object. Nearly all updates of Pods, DaemonSets and Nodes change only other
// fields.
func changed[T client.Object]() predicate.TypedFuncs[T] {
	return predicate.TypedFuncs[T]{UpdateFunc: func(e event.TypedUpdateEvent[T]) bool { return !same(e.ObjectOld, e.ObjectNew) }}
}

// same compares two versions of an object, except for their resource versions.
func same[T client.Object](before, after T) bool {
	copied, ok := before.DeepCopyObject().(T)
	if ok {
		copied.SetResourceVersion(after.GetResourceVersion())
	}
	return ok && equality.Semantic.DeepEqual(copied, after)
}

// waits passes events of Nodes that have the taint, or had it until now.
func waits() predicate.TypedFuncs[*corev1.Node] {
	return predicate.TypedFuncs[*corev1.Node]{
		CreateFunc: func(e event.TypedCreateEvent[*corev1.Node]) bool { return tainted(e.Object) },
		DeleteFunc: func(e event.TypedDeleteEvent[*corev1.Node]) bool { return tainted(e.Object) },
		UpdateFunc: func(e event.TypedUpdateEvent[*corev1.Node]) bool {
			return (tainted(e.ObjectOld) || tainted(e.ObjectNew)) && !same(e.ObjectOld, e.ObjectNew)
		},
	}
}
