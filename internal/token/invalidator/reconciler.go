// Package invalidator marks static ServiceAccount tokens of the target cluster that no Pod needs. A webhook overwrites marked tokens. When
// a token is needed again, the invalidator removes the mark. It writes labels, and sends Events about them. It changes nothing else.
//
// The invalidator watches ServiceAccounts and the metadata of Secrets; it keeps the metadata of Secrets that name a ServiceAccount in
// their annotation. It lists Pods from the API server, and only before it marks a Secret: a Pod that mounts the Secret may need the token.
//
// If the process dies, the next process reads the labels and continues.
package invalidator

import (
	"context"
	"fmt"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/util/workqueue"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/cache"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/log"

	"github.com/espalier-dev/espalier/internal/reflector"
)

// To find and watch static token Secrets by their metadata, and to label them.
// +kubebuilder:rbac:groups="",resources=secrets,verbs=list;watch;patch,roleName=espalier-token-controllers-target-invalidator
// To read from ServiceAccounts whether their tokens are needed.
// +kubebuilder:rbac:groups="",resources=serviceaccounts,verbs=list;watch,roleName=espalier-token-controllers-target-invalidator
// To find Pods that mount a token, because they may need it.
// +kubebuilder:rbac:groups="",resources=pods,verbs=list,roleName=espalier-token-controllers-target-invalidator
// To send Events about Secrets.
// +kubebuilder:rbac:groups=events.k8s.io,resources=events,verbs=create;patch,roleName=espalier-token-controllers-target-invalidator

// Reconciler reconciles static token Secrets, one at a time. Its fields are set once, before start.
type Reconciler struct {
	// Secrets contains the metadata of the Secrets that name a ServiceAccount.
	Secrets cache.Cache
	// Target reads ServiceAccounts from the cache, and writes.
	Target client.Client
	// Live reads Pods without a cache.
	Live    client.Reader
	Events  *Events
	Metrics *Metrics
	// Pauses returns how long to wait before a mounted Secret is checked again. It has its own lock. After a restart of the process, the
	// pauses begin with the shortest one.
	Pauses workqueue.TypedRateLimiter[types.NamespacedName]
}

// Reconcile implements reconcile.Reconciler.
func (r *Reconciler) Reconcile(ctx context.Context, request ctrl.Request) (ctrl.Result, error) {
	secret := newSecret()
	err := r.Secrets.Get(ctx, request.NamespacedName, secret)
	if apierrors.IsNotFound(err) {
		r.Pauses.Forget(request.NamespacedName)
		return ctrl.Result{}, nil
	}
	if err != nil {
		return ctrl.Result{}, fmt.Errorf("read Secret: %w", err)
	}
	account := &corev1.ServiceAccount{}
	if err := r.Target.Get(ctx, types.NamespacedName{Namespace: secret.Namespace, Name: names(secret)}, account); err != nil {
		return ctrl.Result{}, fmt.Errorf("could not fetch ServiceAccount: %w", err)
	}
	todo := planFor(secret, account)
	held := false
	if todo.invalidate {
		by, err := r.mountedBy(ctx, request.NamespacedName)
		if err != nil {
			return ctrl.Result{}, err
		}
		if held = by != ""; held {
			todo.invalidate = false
			log.FromContext(ctx).V(1).Info("Spared a token that is mounted", "pod", by)
		}
	}
	if err := r.write(ctx, secret, todo); err != nil {
		return ctrl.Result{}, err
	}
	if held {
		return ctrl.Result{RequeueAfter: r.Pauses.When(request.NamespacedName)}, nil
	}
	r.Pauses.Forget(request.NamespacedName)
	return ctrl.Result{}, nil
}

func (r *Reconciler) write(ctx context.Context, secret *metav1.PartialObjectMetadata, todo plan) error {
	if todo.empty() {
		return nil
	}
	changed, patch := todo.patch(secret)
	err := r.Target.Patch(ctx, changed, patch)
	switch {
	case apierrors.IsNotFound(err):
		return nil
	case apierrors.IsForbidden(err):
		return fmt.Errorf("label Secret: %w; bind ClusterRole %s in the target", err, roleName)
	case err != nil:
		return fmt.Errorf("label Secret: %w", err)
	}
	log.FromContext(ctx).Info("Labelled static token Secret", "serviceAccount", names(secret), "invalidate", todo.invalidate, "restore",
		todo.restore)
	r.Metrics.labelled(todo)
	r.Events.labelled(secret, todo)
	return nil
}

// mountedBy returns the name of a Pod that mounts a Secret, "" if there is none. The read is live, because a cache may not yet contain a
// Pod that was just created.
func (r *Reconciler) mountedBy(ctx context.Context, secret types.NamespacedName) (string, error) {
	for next := ""; ; {
		pods := &corev1.PodList{} // a new list per page: decoding keeps the fields that a page lacks, also the continue token
		page := []client.ListOption{client.InNamespace(secret.Namespace), client.Limit(reflector.PageSize), client.Continue(next)}
		if err := r.Live.List(ctx, pods, page...); err != nil {
			if apierrors.IsForbidden(err) {
				return "", fmt.Errorf("list Pods: %w; bind ClusterRole %s in the target", err, roleName)
			}
			return "", fmt.Errorf("list Pods: %w", err)
		}
		for i := range pods.Items {
			if mounts(&pods.Items[i], secret.Name) {
				return pods.Items[i].Name, nil
			}
		}
		if next = pods.Continue; next == "" {
			return "", nil
		}
	}
}

// roleName is the name of the role that is generated from the markers above Reconciler.
const roleName = "espalier-token-controllers-target-invalidator"
