package invalidator

import (
	"context"
	"fmt"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/util/workqueue"
	"k8s.io/utils/ptr"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/builder"
	"sigs.k8s.io/controller-runtime/pkg/cache"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/log"
	"sigs.k8s.io/controller-runtime/pkg/manager"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"
	"sigs.k8s.io/controller-runtime/pkg/source"

	resourcesv1alpha1 "github.com/espalier-dev/espalier/api/resources/v1alpha1"
	"github.com/espalier-dev/espalier/internal/process"
)

// ControllerName names the controller in logs and metrics.
const ControllerName = "token-invalidator"

// The pause before a Secret is checked again, because a Pod mounts it or the check failed, grows from shortestPause to longestPause.
const (
	shortestPause = 200 * time.Millisecond
	longestPause  = time.Minute
)

// NewPauses returns the value for Reconciler.Pauses.
func NewPauses() workqueue.TypedRateLimiter[types.NamespacedName] {
	return workqueue.NewTypedItemExponentialFailureRateLimiter[types.NamespacedName](shortestPause, longestPause)
}

// TargetCache returns the options of the target's cache: it keeps the fields of ServiceAccounts that decisions need.
func TargetCache() map[client.Object]cache.ByObject {
	return map[client.Object]cache.ByObject{&corev1.ServiceAccount{}: {Transform: process.Keeping(stripAccount)}}
}

// NewSecrets returns the value for Reconciler.Secrets, for the given namespaces, or for all if the list is empty. The options define the
// connection. The cache of the target cannot contain these Secrets: if source and target are one cluster, that cache contains only the
// Secrets of the token requestor.
func NewSecrets(target *rest.Config, options cache.Options, namespaces []string) (cache.Cache, error) {
	options.NewInformer = newInformer
	for _, namespace := range namespaces {
		if options.DefaultNamespaces == nil {
			options.DefaultNamespaces = map[string]cache.Config{}
		}
		options.DefaultNamespaces[namespace] = cache.Config{}
	}
	secrets, err := cache.New(target, options)
	if err != nil {
		return nil, fmt.Errorf("create cache of Secrets: %w", err)
	}
	return secrets, nil
}

func stripAccount(account *corev1.ServiceAccount) *corev1.ServiceAccount {
	stripped := &corev1.ServiceAccount{
		ObjectMeta: process.Identity(account), Secrets: account.Secrets, AutomountServiceAccountToken: account.AutomountServiceAccountToken,
	}
	if skip, found := account.Labels[resourcesv1alpha1.StaticTokenSkip]; found {
		stripped.Labels = map[string]string{resourcesv1alpha1.StaticTokenSkip: skip}
	}
	return stripped
}

// SetupWithManager adds the controller to a manager. The cache accounts is the cache of the target, configured by TargetCache. The manager
// runs the cache of Secrets, like the controller, only in the leader.
func (r *Reconciler) SetupWithManager(ctx context.Context, mgr ctrl.Manager, accounts cache.Cache, workers int) error {
	if err := r.Secrets.IndexField(ctx, newSecret(), byAccount, accountIndex); err != nil {
		return fmt.Errorf("index Secrets by ServiceAccount: %w", err)
	}
	if err := mgr.Add(manager.RunnableFunc(r.Secrets.Start)); err != nil {
		return fmt.Errorf("add cache of Secrets to manager: %w", err)
	}
	return builder.ControllerManagedBy(mgr).
		Named(ControllerName).
		WatchesRawSource(source.Kind(r.Secrets, newSecret(), process.OnEvent(secretEvent))).
		WatchesRawSource(source.Kind(accounts, &corev1.ServiceAccount{}, process.OnEvent(r.accountEvent))).
		WithOptions(process.ControllerOptions(workers, process.Deadline, shortestPause, longestPause)).
		Complete(r)
}

func changedItsMind(before, after *corev1.ServiceAccount) bool {
	skipBefore, hadSkip := before.Labels[resourcesv1alpha1.StaticTokenSkip]
	skipAfter, hasSkip := after.Labels[resourcesv1alpha1.StaticTokenSkip]
	return hadSkip != hasSkip || skipBefore != skipAfter || !ptr.Equal(before.AutomountServiceAccountToken, after.AutomountServiceAccountToken)
}

// secretEvent enqueues a Secret that is created or changed. Deleted Secrets need no work.
func secretEvent(_ context.Context, _, after *metav1.PartialObjectMetadata, queue process.Queue) {
	if after != nil {
		queue.Add(reconcile.Request{NamespacedName: client.ObjectKeyFromObject(after)})
	}
}

// accountEvent enqueues the Secrets of a new ServiceAccount. For a changed one it enqueues the Secrets of its old and of its new state.
func (r *Reconciler) accountEvent(ctx context.Context, before, after *corev1.ServiceAccount, queue process.Queue) {
	switch {
	case before == nil:
		r.enqueueSecretsOf(ctx, after, queue)
	case after != nil && changedItsMind(before, after):
		r.enqueueSecretsOf(ctx, before, queue)
		r.enqueueSecretsOf(ctx, after, queue)
	}
}

// enqueueSecretsOf enqueues the Secrets that name a ServiceAccount in their annotation, and the Secrets that it references.
func (r *Reconciler) enqueueSecretsOf(ctx context.Context, account *corev1.ServiceAccount, queue process.Queue) {
	add := func(secret string) {
		queue.Add(reconcile.Request{NamespacedName: types.NamespacedName{Namespace: account.Namespace, Name: secret}})
	}
	for _, reference := range account.Secrets {
		add(reference.Name)
	}
	if !r.Secrets.WaitForCacheSync(ctx) { // this cache starts at the same time as the controller
		return
	}
	list := &metav1.PartialObjectMetadataList{}
	list.SetGroupVersionKind(corev1.SchemeGroupVersion.WithKind("SecretList"))
	named := client.MatchingFields{byAccount: account.Name}
	if err := r.Secrets.List(ctx, list, client.InNamespace(account.Namespace), named, client.UnsafeDisableDeepCopy); err != nil {
		log.FromContext(ctx).Error(err, "Could not find the Secrets of a ServiceAccount", "serviceAccount", client.ObjectKeyFromObject(account))
	}
	for i := range list.Items {
		add(list.Items[i].Name)
	}
}
