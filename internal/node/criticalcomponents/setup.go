package criticalcomponents

import (
	"cmp"
	"context"
	"fmt"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	storagev1 "k8s.io/api/storage/v1"
	"k8s.io/apimachinery/pkg/api/equality"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/types"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/cache"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/cluster"
	"sigs.k8s.io/controller-runtime/pkg/log"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"
	"sigs.k8s.io/controller-runtime/pkg/source"

	resourcesv1alpha1 "github.com/espalier-dev/espalier/api/resources/v1alpha1"
	"github.com/espalier-dev/espalier/internal/process"
)

// ControllerName names the controller in logs and metrics.
const ControllerName = "node"

// The pause after a failure grows from shortestPause to longestPause.
const (
	shortestPause = 100 * time.Millisecond
	longestPause  = time.Minute
)

// Indexes of the caches. The first name is also a field selector of the API server for Pods, so that live reads can use it.
const (
	podsByNode   = "spec.nodeName"
	nodesWaiting = "waiting"
	yes          = "true"
)

// CacheOptions restricts the caches of the target to critical Pods and DaemonSets, and the objects of all kinds to the relevant fields.
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
	r.waiting = newWaiting(r.Metrics, backoff(r.Config))
	if err := addIndexes(ctx, target.GetFieldIndexer()); err != nil {
		return err
	}
	caches := target.GetCache()
	return ctrl.NewControllerManagedBy(mgr).
		Named(ControllerName).
		WatchesRawSource(source.Kind(caches, &corev1.Node{}, process.OnEvent(r.nodeEvent))).
		WatchesRawSource(source.Kind(caches, &corev1.Pod{}, process.OnEvent(r.podEvent))).
		WatchesRawSource(source.Kind(caches, &appsv1.DaemonSet{}, process.OnEvent(r.daemonSetEvent))).
		WatchesRawSource(source.Kind(caches, &storagev1.CSINode{}, process.OnEvent(r.csiNodeEvent))).
		WithOptions(process.ControllerOptions(workers, process.Deadline, shortestPause, longestPause)).
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

// nodeEvent enqueues a Node that has the taint, or had it until now. If a Node gets the taint again, nodeEvent also records this.
func (r *Reconciler) nodeEvent(_ context.Context, before, after *corev1.Node, queue process.Queue) {
	if !waits(before, after) {
		return
	}
	if before != nil && after != nil && !tainted(before) && before.UID == after.UID {
		r.waiting.taintedAgain(after, r.Clock.Now())
	}
	queue.Add(reconcile.Request{NamespacedName: client.ObjectKeyFromObject(cmp.Or(after, before))})
}

// waits reports whether the Node of an event has the taint, or had it until now, and whether the event changes a cached field of the Node.
func waits(before, after *corev1.Node) bool {
	return (before != nil && tainted(before) || after != nil && tainted(after)) && changed(before, after)
}

// podEvent enqueues the Pod's Node, if the Node has the taint. A Node that is not in the cache yet is enqueued by its own event. If a Pod
// was replaced by another Pod of the same name, podEvent enqueues the Nodes of both Pods.
func (r *Reconciler) podEvent(ctx context.Context, before, after *corev1.Pod, queue process.Queue) {
	if !changed(before, after) {
		return
	}
	for _, pod := range []*corev1.Pod{before, after} {
		if pod != nil {
			r.enqueueIfWaiting(ctx, pod.Spec.NodeName, queue)
		}
	}
}

func (r *Reconciler) csiNodeEvent(ctx context.Context, before, after *storagev1.CSINode, queue process.Queue) {
	if changed(before, after) {
		r.enqueueIfWaiting(ctx, cmp.Or(after, before).Name, queue)
	}
}

func (r *Reconciler) enqueueIfWaiting(ctx context.Context, name string, queue process.Queue) {
	node := &corev1.Node{}
	if name != "" && r.Client.Get(ctx, client.ObjectKey{Name: name}, node) == nil && tainted(node) {
		queue.Add(reconcile.Request{NamespacedName: types.NamespacedName{Name: name}})
	}
}

// daemonSetEvent enqueues all Nodes with the taint: the DaemonSet may concern any of them.
func (r *Reconciler) daemonSetEvent(ctx context.Context, before, after *appsv1.DaemonSet, queue process.Queue) {
	if !changed(before, after) {
		return
	}
	nodes := &corev1.NodeList{}
	if err := r.Client.List(ctx, nodes, client.MatchingFields{nodesWaiting: yes}); err != nil {
		log.FromContext(ctx).Error(err, "Could not list the Nodes that wait; they are looked at when their pause is over")
	}
	for i := range nodes.Items {
		queue.Add(reconcile.Request{NamespacedName: types.NamespacedName{Name: nodes.Items[i].Name}})
	}
}

// changed returns true if an object was created or deleted, or if an update changes a cached field other than the resource version. Nearly
// all updates of Pods, DaemonSets and Nodes change only fields that are not cached.
func changed[T interface {
	client.Object
	comparable
}](before, after T) bool {
	var none T
	if before == none || after == none {
		return true
	}
	copied, ok := before.DeepCopyObject().(T)
	if ok {
		copied.SetResourceVersion(after.GetResourceVersion())
	}
	return !ok || !equality.Semantic.DeepEqual(copied, after)
}
