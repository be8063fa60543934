package controller

import (
	"context"
	"slices"

	corev1 "k8s.io/api/core/v1"
	networkingv1 "k8s.io/api/networking/v1"
	"k8s.io/apimachinery/pkg/api/equality"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/util/workqueue"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/event"
	"sigs.k8s.io/controller-runtime/pkg/handler"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"

	"github.com/espalier-dev/espalier/internal/networkpolicy/desired"
)

type queue = workqueue.TypedRateLimitingInterface[reconcile.Request]

// whole enqueues a Service, with everything as its scope.
func (r *Reconciler) whole(q queue, service types.NamespacedName) {
	r.Scopes.Whole(service)
	q.Add(reconcile.Request{NamespacedName: service})
}

// serviceEvents enqueue a Service when one of its cached fields changes.
func (r *Reconciler) serviceEvents() handler.TypedFuncs[*corev1.Service, reconcile.Request] {
	changed := func(service *corev1.Service, exists bool, q queue) {
		key := client.ObjectKeyFromObject(service)
		text, present := service.Annotations[namespaceSelectors]
		r.Selections.set(key, text, exists && present)
		r.whole(q, key)
	}
	return handler.TypedFuncs[*corev1.Service, reconcile.Request]{
		CreateFunc: func(_ context.Context, e event.TypedCreateEvent[*corev1.Service], q queue) {
			changed(e.Object, true, q)
		},
		UpdateFunc: func(_ context.Context, e event.TypedUpdateEvent[*corev1.Service], q queue) {
			if serviceChanged(e.ObjectOld, e.ObjectNew) {
				changed(e.ObjectNew, true, q)
			}
		},
		DeleteFunc: func(_ context.Context, e event.TypedDeleteEvent[*corev1.Service], q queue) {
			changed(e.Object, false, q)
		},
	}
}

// serviceChanged compares two Services from the cache.
func serviceChanged(before, after *corev1.Service) bool {
	return before.UID != after.UID || (before.DeletionTimestamp == nil) != (after.DeletionTimestamp == nil) ||
		!equality.Semantic.DeepEqual(before.Annotations, after.Annotations) || !equality.Semantic.DeepEqual(before.Spec, after.Spec)
}

// policyEvents trigger the repair of what another client has changed. Events of the controller's own writes are ignored, and the initial
// list does not count as a change.
func (r *Reconciler) policyEvents() handler.TypedFuncs[*networkingv1.NetworkPolicy, reconcile.Request] {
	happened := func(policy *networkingv1.NetworkPolicy, fingerprint string, initial bool, q queue) {
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
		CreateFunc: func(_ context.Context, e event.TypedCreateEvent[*networkingv1.NetworkPolicy], q queue) {
			happened(e.Object, e.Object.Annotations[fingerprintKey], e.IsInInitialList, q)
		},
		UpdateFunc: func(_ context.Context, e event.TypedUpdateEvent[*networkingv1.NetworkPolicy], q queue) {
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
		DeleteFunc: func(_ context.Context, e event.TypedDeleteEvent[*networkingv1.NetworkPolicy], q queue) {
			happened(e.Object, gone, false, q)
			r.wakeWaiting(q, e.Object)
		},
	}
}

// wakeWaiting enqueues the Services that need the name of a policy, because another Service has released it.
func (r *Reconciler) wakeWaiting(q queue, policy *networkingv1.NetworkPolicy) {
	for _, service := range r.Waiting.forPolicy(client.ObjectKeyFromObject(policy)) {
		r.whole(q, service)
	}
}

// namespaceEvents enqueue the Services for which the role of a namespace has changed.
func (r *Reconciler) namespaceEvents() handler.TypedFuncs[*metav1.PartialObjectMetadata, reconcile.Request] {
	return handler.TypedFuncs[*metav1.PartialObjectMetadata, reconcile.Request]{
		CreateFunc: func(ctx context.Context, e event.TypedCreateEvent[*metav1.PartialObjectMetadata], q queue) {
			r.namespaceChanged(ctx, nil, e.Object, q)
		},
		UpdateFunc: func(ctx context.Context, e event.TypedUpdateEvent[*metav1.PartialObjectMetadata], q queue) {
			r.namespaceChanged(ctx, e.ObjectOld, e.ObjectNew, q)
		},
		DeleteFunc: func(ctx context.Context, e event.TypedDeleteEvent[*metav1.PartialObjectMetadata], q queue) {
			r.namespaceChanged(ctx, e.Object, nil, q)
		},
	}
}

// namespaceChanged handles an event; nil stands for a namespace that does not exist.
func (r *Reconciler) namespaceChanged(ctx context.Context, before, after *metav1.PartialObjectMetadata, q queue) {
	name := nameOf(before, after)
	for _, service := range r.Selections.differing(r.clientLabels(before), r.clientLabels(after)) {
		if service.Namespace != name {
			r.Scopes.Client(service, name)
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

func nameOf(before, after *metav1.PartialObjectMetadata) string {
	if after != nil {
		return after.Name
	}
	return before.Name
}

// usable reports whether objects can be created in a namespace.
func usable(namespace *metav1.PartialObjectMetadata) bool {
	return namespace != nil && namespace.DeletionTimestamp == nil
}

// wakeServicesOf enqueues all Services of a namespace. The list can only fail before the cache has started, and then every Service is
// enqueued anyway.
func (r *Reconciler) wakeServicesOf(ctx context.Context, namespace string, q queue) {
	list := &corev1.ServiceList{}
	if err := r.Cached.List(ctx, list, client.InNamespace(namespace), client.UnsafeDisableDeepCopy); err != nil {
		return
	}
	for i := range list.Items {
		r.whole(q, client.ObjectKeyFromObject(&list.Items[i]))
	}
}

// wakeBackends enqueues every Service that is a backend of an Ingress.
func (r *Reconciler) wakeBackends(ctx context.Context, q queue) {
	list := &networkingv1.IngressList{}
	if err := r.Cached.List(ctx, list, client.UnsafeDisableDeepCopy); err != nil {
		return
	}
	for i := range list.Items {
		r.backends(q, &list.Items[i])
	}
}

func (r *Reconciler) backends(q queue, ingresses ...*networkingv1.Ingress) {
	var woken []string
	for _, ingress := range ingresses {
		for _, name := range desired.Backends(ingress) {
			if !slices.Contains(woken, name) {
				woken = append(woken, name)
				r.whole(q, types.NamespacedName{Namespace: ingress.Namespace, Name: name})
			}
		}
	}
}

// ingressEvents enqueue the backends of the old and the new rules.
func (r *Reconciler) ingressEvents() handler.TypedFuncs[*networkingv1.Ingress, reconcile.Request] {
	return handler.TypedFuncs[*networkingv1.Ingress, reconcile.Request]{
		CreateFunc: func(_ context.Context, e event.TypedCreateEvent[*networkingv1.Ingress], q queue) {
			r.backends(q, e.Object)
		},
		UpdateFunc: func(_ context.Context, e event.TypedUpdateEvent[*networkingv1.Ingress], q queue) {
			if !equality.Semantic.DeepEqual(e.ObjectOld.Spec.Rules, e.ObjectNew.Spec.Rules) {
				r.backends(q, e.ObjectOld, e.ObjectNew)
			}
		},
		DeleteFunc: func(_ context.Context, e event.TypedDeleteEvent[*networkingv1.Ingress], q queue) {
			r.backends(q, e.Object)
		},
	}
}
