package controller

import (
	"cmp"
	"context"

	corev1 "k8s.io/api/core/v1"
	networkingv1 "k8s.io/api/networking/v1"
	"k8s.io/apimachinery/pkg/api/equality"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/event"
	"sigs.k8s.io/controller-runtime/pkg/handler"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"

	"github.com/espalier-dev/espalier/internal/networkpolicy/desired"
	"github.com/espalier-dev/espalier/internal/process"
)

// whole enqueues a Service, with everything as its scope.
func (r *Reconciler) whole(q process.Queue, service types.NamespacedName) {
	r.scopes.requestAll(service)
	q.Add(reconcile.Request{NamespacedName: service})
}

// serviceEvent enqueues a Service when one of its cached fields changes.
func (r *Reconciler) serviceEvent(_ context.Context, before, after *corev1.Service, q process.Queue) {
	switch {
	case after == nil:
		r.selections.set(client.ObjectKeyFromObject(before), "", false)
		r.whole(q, client.ObjectKeyFromObject(before))
	case before == nil || serviceChanged(before, after):
		text, present := after.Annotations[namespaceSelectors]
		r.selections.set(client.ObjectKeyFromObject(after), text, present)
		r.whole(q, client.ObjectKeyFromObject(after))
	}
}

// serviceChanged compares two Services from the cache.
func serviceChanged(before, after *corev1.Service) bool {
	return before.UID != after.UID || (before.DeletionTimestamp == nil) != (after.DeletionTimestamp == nil) ||
		!equality.Semantic.DeepEqual(before.Annotations, after.Annotations) || !equality.Semantic.DeepEqual(before.Spec, after.Spec)
}

// policyEvents trigger the repair of policies that another client has changed. Events of the controller's own writes are ignored. The
// policies of the initial list are checked, but do not count as changed by another client.
func (r *Reconciler) policyEvents() handler.TypedFuncs[*networkingv1.NetworkPolicy, reconcile.Request] {
	happened := func(policy *networkingv1.NetworkPolicy, fingerprint string, initial bool, q process.Queue) {
		owner, owned := desired.Owner(policy)
		key := client.ObjectKeyFromObject(policy)
		if !owned || r.Writes.arrived(owner, key, fingerprint) {
			return
		}
		if !initial {
			r.Repairs.disturbed(key)
		}
		r.whole(q, owner)
	}
	return handler.TypedFuncs[*networkingv1.NetworkPolicy, reconcile.Request]{
		CreateFunc: func(_ context.Context, e event.TypedCreateEvent[*networkingv1.NetworkPolicy], q process.Queue) {
			happened(e.Object, e.Object.Annotations[fingerprintKey], e.IsInInitialList, q)
		},
		UpdateFunc: func(_ context.Context, e event.TypedUpdateEvent[*networkingv1.NetworkPolicy], q process.Queue) {
			fingerprint := e.ObjectNew.Annotations[fingerprintKey]
			if fingerprint == e.ObjectOld.Annotations[fingerprintKey] && e.ObjectOld.UID == e.ObjectNew.UID {
				return
			}
			happened(e.ObjectNew, fingerprint, false, q)
			before, _ := desired.Owner(e.ObjectOld)
			if after, _ := desired.Owner(e.ObjectNew); after != before {
				r.whole(q, before)
				r.wakeWaiting(q, e.ObjectNew)
			}
		},
		DeleteFunc: func(_ context.Context, e event.TypedDeleteEvent[*networkingv1.NetworkPolicy], q process.Queue) {
			happened(e.Object, gone, false, q)
			r.wakeWaiting(q, e.Object)
		},
	}
}

// wakeWaiting enqueues the Services that need the name of a policy, because another Service has released it.
func (r *Reconciler) wakeWaiting(q process.Queue, policy *networkingv1.NetworkPolicy) {
	for _, service := range r.waiting.forPolicy(client.ObjectKeyFromObject(policy)) {
		r.whole(q, service)
	}
}

// namespaceEvent enqueues the Services for which the role of a namespace has changed.
func (r *Reconciler) namespaceEvent(ctx context.Context, before, after *metav1.PartialObjectMetadata, q process.Queue) {
	name := cmp.Or(after, before).Name
	for _, service := range r.selections.differing(r.clientLabels(before), r.clientLabels(after)) {
		if service.Namespace != name {
			r.scopes.requestClient(service, name)
			q.Add(reconcile.Request{NamespacedName: service})
		}
	}
	if before == nil || after != nil && handles(r.Handled, before) != handles(r.Handled, after) {
		r.wakeServicesOf(ctx, name, q)
	}
	if r.IngressController != nil && name == r.IngressController.Namespace && usable(before) != usable(after) {
		r.wakeBackends(ctx, q)
	}
}

// usable reports whether objects can be created in a namespace.
func usable(namespace *metav1.PartialObjectMetadata) bool {
	return namespace != nil && namespace.DeletionTimestamp == nil
}

// wakeServicesOf enqueues all Services of a namespace. The list can only fail before the cache has started, and then every Service is
// enqueued anyway.
func (r *Reconciler) wakeServicesOf(ctx context.Context, namespace string, q process.Queue) {
	list := &corev1.ServiceList{}
	if err := r.Cached.List(ctx, list, client.InNamespace(namespace), client.UnsafeDisableDeepCopy); err != nil {
		return
	}
	for i := range list.Items {
		r.whole(q, client.ObjectKeyFromObject(&list.Items[i]))
	}
}

// wakeBackends enqueues every Service that is a backend of an Ingress.
func (r *Reconciler) wakeBackends(ctx context.Context, q process.Queue) {
	list := &networkingv1.IngressList{}
	if err := r.Cached.List(ctx, list, client.UnsafeDisableDeepCopy); err != nil {
		return
	}
	for i := range list.Items {
		r.backends(q, &list.Items[i])
	}
}

// ingressEvent enqueues the old and the new backends if they may have changed.
func (r *Reconciler) ingressEvent(_ context.Context, before, after *networkingv1.Ingress, q process.Queue) {
	if before != nil && after != nil && equality.Semantic.DeepEqual(before.Spec, after.Spec) {
		return
	}
	r.backends(q, before)
	r.backends(q, after)
}

// backends enqueues the backends of an Ingress; nil has none.
func (r *Reconciler) backends(q process.Queue, ingress *networkingv1.Ingress) {
	if ingress == nil {
		return
	}
	for name := range desired.Backends(ingress) {
		r.whole(q, types.NamespacedName{Namespace: ingress.Namespace, Name: name})
	}
}
