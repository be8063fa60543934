package invalidator

import (
	"context"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/util/workqueue"
	"k8s.io/utils/ptr"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/builder"
	"sigs.k8s.io/controller-runtime/pkg/cache"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/controller"
	"sigs.k8s.io/controller-runtime/pkg/event"
	"sigs.k8s.io/controller-runtime/pkg/handler"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"
	"sigs.k8s.io/controller-runtime/pkg/source"

	resourcesv1alpha1 "github.com/espalier-dev/espalier/api/resources/v1alpha1"
)

// ControllerName names the controller in logs and metrics.
const ControllerName = "token-invalidator"

// The pause before a Secret that a Pod mounts, or that fails, is checked again grows from shortestPause to longestPause.
const (
	shortestPause = 200 * time.Millisecond
	longestPause  = time.Minute
)

// deadline limits the time for the requests about one Secret.
const deadline = 3 * time.Minute

// NewPauses returns the value for Reconciler.Pauses.
func NewPauses() workqueue.TypedRateLimiter[types.NamespacedName] {
	return workqueue.NewTypedItemExponentialFailureRateLimiter[types.NamespacedName](shortestPause, longestPause)
}

// TargetCache returns what to cache of the target: the fields of ServiceAccounts that decisions need.
func TargetCache() map[client.Object]cache.ByObject {
	return map[client.Object]cache.ByObject{&corev1.ServiceAccount{}: {Transform: stripAccount}}
}

func stripAccount(object any) (any, error) {
	account, ok := object.(*corev1.ServiceAccount)
	if !ok {
		return object, nil
	}
	stripped := &corev1.ServiceAccount{
		ObjectMeta: metav1.ObjectMeta{
			Namespace: account.Namespace, Name: account.Name, UID: account.UID, ResourceVersion: account.ResourceVersion,
		},
		Secrets:                      account.Secrets,
		AutomountServiceAccountToken: account.AutomountServiceAccountToken,
	}
	if skip, found := account.Labels[resourcesv1alpha1.StaticTokenSkip]; found {
		stripped.Labels = map[string]string{resourcesv1alpha1.StaticTokenSkip: skip}
	}
	return stripped, nil
}

// SetupWithManager adds the controller to a manager; accounts is the cache of the target, configured by TargetCache.
func (r *Reconciler) SetupWithManager(mgr ctrl.Manager, accounts cache.Cache, workers int) error {
	return builder.ControllerManagedBy(mgr).
		Named(ControllerName).
		WatchesRawSource(r.Secrets).
		WatchesRawSource(source.Kind(accounts, &corev1.ServiceAccount{}, r.accountChanges())).
		WithOptions(options(workers)).
		Complete(r)
}

func options(workers int) controller.Options {
	return controller.Options{
		MaxConcurrentReconciles: workers,
		ReconciliationTimeout:   deadline,
		RateLimiter:             workqueue.NewTypedItemExponentialFailureRateLimiter[reconcile.Request](shortestPause, longestPause),
	}
}

func changedItsMind(before, after *corev1.ServiceAccount) bool {
	skipBefore, hadSkip := before.Labels[resourcesv1alpha1.StaticTokenSkip]
	skipAfter, hasSkip := after.Labels[resourcesv1alpha1.StaticTokenSkip]
	return hadSkip != hasSkip || skipBefore != skipAfter || !ptr.Equal(before.AutomountServiceAccountToken, after.AutomountServiceAccountToken)
}

type queue = workqueue.TypedRateLimitingInterface[reconcile.Request]

// accountChanges enqueues the Secrets of a new ServiceAccount, and of one whose settings have changed: in its old and in its new state.
func (r *Reconciler) accountChanges() handler.TypedFuncs[*corev1.ServiceAccount, reconcile.Request] {
	add := func(q queue, accounts ...*corev1.ServiceAccount) {
		for _, secret := range r.Secrets.naming(accounts...) {
			q.Add(reconcile.Request{NamespacedName: secret})
		}
	}
	return handler.TypedFuncs[*corev1.ServiceAccount, reconcile.Request]{
		CreateFunc: func(_ context.Context, e event.TypedCreateEvent[*corev1.ServiceAccount], q queue) { add(q, e.Object) },
		UpdateFunc: func(_ context.Context, e event.TypedUpdateEvent[*corev1.ServiceAccount], q queue) {
			if changedItsMind(e.ObjectOld, e.ObjectNew) {
				add(q, e.ObjectOld, e.ObjectNew)
			}
		},
	}
}
