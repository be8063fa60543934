package applier

import (
	"context"
	"fmt"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/builder"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/event"
	"sigs.k8s.io/controller-runtime/pkg/handler"
	"sigs.k8s.io/controller-runtime/pkg/predicate"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"

	corev1beta1 "github.com/espalier-dev/espalier/api/core/v1beta1"
	resourcesv1alpha1 "github.com/espalier-dev/espalier/api/resources/v1alpha1"
)

// The metadata of ServiceAccounts is watched if sets are applied with their rights, because an API server also lets a client act as a
// ServiceAccount that does not exist.
// +kubebuilder:rbac:groups="",resources=serviceaccounts,verbs=list;watch,roleName=espalier-managedresource-controller-source

// accountRefusal returns why a set must not act with the rights that are chosen for it, "" if it may.
func (r *Planner) accountRefusal(ctx context.Context, mr *resourcesv1alpha1.ManagedResource) (string, error) {
	if refusal := r.Identity.Refusal(mr); refusal != "" {
		return refusal, nil
	}
	name := r.Identity.Name(mr)
	if name == "" || r.Accounts == nil {
		return "", nil
	}
	found := &metav1.PartialObjectMetadata{}
	found.SetGroupVersionKind(corev1.SchemeGroupVersion.WithKind("ServiceAccount"))
	err := r.Accounts.Get(ctx, client.ObjectKey{Namespace: mr.Namespace, Name: name}, found, client.UnsafeDisableDeepCopy)
	switch {
	case apierrors.IsNotFound(err), err == nil && found.DeletionTimestamp != nil:
		return fmt.Sprintf("refused: ServiceAccount %q does not exist in namespace %q", name, mr.Namespace), nil
	case err != nil:
		return "", fmt.Errorf("read ServiceAccount: %w", err)
	}
	return "", nil
}

// stopWatchesOfAccount stops the watches of a refused set that have the rights of its ServiceAccount.
func (r *Reconciler) stopWatchesOfAccount(p *pass) {
	if r.Identity.Watcher(p.mr) == "" {
		return
	}
	r.Watcher.Release(p.name)
	p.set.Watched = false
}

// refuseDeletion reports that the objects of a set cannot be deleted, and why: its ServiceAccount is refused, or it is unknown whether the
// deletion is suspended. If err is not nil, it only returns err.
func (r *Reconciler) refuseDeletion(ctx context.Context, p *pass, refusal string, err error) (ctrl.Result, error) {
	if err != nil {
		return ctrl.Result{}, err
	}
	r.stopWatchesOfAccount(p)
	reason := resourcesv1alpha1.ConditionDeletionPending
	r.Events.failed(p, nil, reason, refusal)
	if err := r.report(ctx, p, applied(corev1beta1.ConditionProgressing, reason, refusal)); err != nil {
		return ctrl.Result{}, err
	}
	return ctrl.Result{RequeueAfter: r.Config.SyncPeriod.Duration}, nil
}

// watchAccounts enqueues the sets of a namespace when a ServiceAccount there appears or disappears.
func (r *Reconciler) watchAccounts(b *builder.Builder) *builder.Builder {
	if r.Accounts == nil {
		return b
	}
	setsBeside := func(ctx context.Context, account client.Object) []reconcile.Request {
		return r.requestsFor(ctx, client.InNamespace(account.GetNamespace()))
	}
	return b.WatchesMetadata(&corev1.ServiceAccount{}, handler.EnqueueRequestsFromMapFunc(setsBeside), builder.WithPredicates(predicate.Funcs{
		UpdateFunc: func(e event.UpdateEvent) bool {
			return (e.ObjectOld.GetDeletionTimestamp() == nil) != (e.ObjectNew.GetDeletionTimestamp() == nil)
		},
	}))
}
