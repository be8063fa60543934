package requestor

import (
	"cmp"
	"context"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/labels"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/cache"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/controller/priorityqueue"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"
	"sigs.k8s.io/controller-runtime/pkg/source"

	resourcesv1alpha1 "github.com/espalier-dev/espalier/api/resources/v1alpha1"
	"github.com/espalier-dev/espalier/internal/conflict"
	"github.com/espalier-dev/espalier/internal/process"
	"github.com/espalier-dev/espalier/internal/token/digest"
)

// ControllerName names the controller in logs and metrics.
const ControllerName = "token-requestor"

// The pause before the next attempt for a Secret that fails grows from shortestPause to longestPause.
const (
	shortestPause = 200 * time.Millisecond
	longestPause  = 5 * time.Minute
)

// SourceCache returns the options of the cache of the source. The cache contains digests of the Secrets that have the purpose label of the
// token requestor. If class is not nil, it contains only Secrets of that class.
func SourceCache(class *string) map[client.Object]cache.ByObject {
	wanted := labels.Set{resourcesv1alpha1.ResourcePurpose: resourcesv1alpha1.PurposeTokenRequestor}
	if class != nil {
		wanted[resourcesv1alpha1.ResourceClass] = *class
	}
	return map[client.Object]cache.ByObject{&corev1.Secret{}: {Label: labels.SelectorFromSet(wanted), Transform: digest.Strip}}
}

// SetupWithManager adds the controller to the manager of the source cluster, whose cache is configured by SourceCache.
func (r *Reconciler) SetupWithManager(mgr ctrl.Manager, workers int) error {
	return ctrl.NewControllerManagedBy(mgr).
		Named(ControllerName).
		WatchesRawSource(source.Kind(mgr.GetCache(), &corev1.Secret{}, process.OnEvent(r.secretEvent))).
		WatchesRawSource(source.Func(r.followCA)).
		WithOptions(process.ControllerOptions(workers, process.Deadline, shortestPause, longestPause)).
		Complete(conflict.RetryAtOnce(r))
}

// secretEvent enqueues a Secret that is created, changed or deleted. If a Secret loses its labels, the API server sends a deletion.
func (r *Reconciler) secretEvent(_ context.Context, before, after *corev1.Secret, q process.Queue) {
	r.enqueue(q, cmp.Or(after, before))
}

// enqueue adds a Secret with its priority.
func (r *Reconciler) enqueue(q process.Queue, secret *corev1.Secret) {
	request := reconcile.Request{NamespacedName: client.ObjectKeyFromObject(secret)}
	prioritized, ok := q.(priorityqueue.PriorityQueue[reconcile.Request])
	held, err := digest.Read(secret)
	if !ok || err != nil {
		q.Add(request)
		return
	}
	priority := urgency(r.Clock.Now(), secret.Annotations, held)
	prioritized.AddWithOpts(priorityqueue.AddOpts{Priority: &priority}, request)
}
