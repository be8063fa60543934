package applier

import (
	"context"
	"fmt"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/builder"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/event"
	"sigs.k8s.io/controller-runtime/pkg/handler"
	"sigs.k8s.io/controller-runtime/pkg/predicate"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"

	resourcesv1alpha1 "github.com/espalier-dev/espalier/api/resources/v1alpha1"
	"github.com/espalier-dev/espalier/internal/apply/merge"
)

// The metadata of Namespaces is watched if their labels decide in which namespaces sets are applied.
// +kubebuilder:rbac:groups="",resources=namespaces,verbs=list;watch,roleName=espalier-managedresource-controller-source

// refusal returns why a set is not applied, "" if it is.
func (r *Planner) refusal(ctx context.Context, mr *resourcesv1alpha1.ManagedResource) (string, error) {
	if refusal, err := r.namespaceRefusal(ctx, mr.Namespace); err != nil || refusal != "" {
		return refusal, err
	}
	return r.accountRefusal(ctx, mr)
}

// namespaceRefusal returns why sets of a namespace are not applied, "" if they are applied. If the labels of the namespace decide, and the
// cache does not contain the namespace yet, namespaceRefusal returns an error.
func (r *Planner) namespaceRefusal(ctx context.Context, namespace string) (string, error) {
	if !r.Limits.NeedsLabels(namespace) {
		return r.Limits.RefuseSet(namespace, nil), nil
	}
	found := &metav1.PartialObjectMetadata{}
	found.SetGroupVersionKind(corev1.SchemeGroupVersion.WithKind("Namespace"))
	if err := r.Source.Get(ctx, client.ObjectKey{Name: namespace}, found); err != nil {
		return "", fmt.Errorf("read Namespace: %w", err)
	}
	return r.Limits.RefuseSet(namespace, found.Labels), nil
}

// malformed returns why a set cannot be applied because of its annotations, "" if it can.
func (r *Planner) malformed(mr *resourcesv1alpha1.ManagedResource) string {
	_, err := merge.ParseIgnored(mr.Annotations)
	if err == nil {
		_, err = r.dependenciesOf(mr)
	}
	if err != nil {
		return err.Error()
	}
	return ""
}

// refuseSet reports that a set is not applied. The objects of the set stay as they are. The process also keeps its state of the set in
// memory, so that the controller continues where it stopped if the set is allowed again. The set gets no finalizer, because the controller
// writes no new objects for it. Watches with the rights of the set's ServiceAccount are stopped.
func (r *Reconciler) refuseSet(ctx context.Context, mr *resourcesv1alpha1.ManagedResource, refusal string, err error) (ctrl.Result, error) {
	if err != nil {
		return ctrl.Result{}, err
	}
	p := r.newPass(ctx, mr)
	r.stopWatchesOfAccount(p)
	if err := r.fail(ctx, p, resourcesv1alpha1.ConditionApplyFailed, refusal, nil); err != nil {
		return ctrl.Result{}, err
	}
	return ctrl.Result{RequeueAfter: r.Config.SyncPeriod.Duration}, nil
}

// watchNamespaces enqueues the sets of a Namespace when the Namespace is created, and when a change of its labels changes whether the
// setting setSelector selects the Namespace.
func (r *Reconciler) watchNamespaces(b *builder.Builder) *builder.Builder {
	if r.Limits.Own.SetSelector == nil {
		return b
	}
	setsIn := func(ctx context.Context, namespace client.Object) []reconcile.Request {
		return r.requestsFor(ctx, client.InNamespace(namespace.GetName()))
	}
	return b.WatchesMetadata(&corev1.Namespace{}, handler.EnqueueRequestsFromMapFunc(setsIn), builder.WithPredicates(predicate.Funcs{
		UpdateFunc: func(e event.UpdateEvent) bool {
			return r.Limits.Selects(e.ObjectOld.GetLabels()) != r.Limits.Selects(e.ObjectNew.GetLabels())
		},
		DeleteFunc: func(event.DeleteEvent) bool { return false },
	}))
}
