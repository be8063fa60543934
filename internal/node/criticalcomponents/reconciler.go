// Package criticalcomponents makes new Nodes available for Pods. A Node is registered with a taint. The controller removes the taint when
// each critical DaemonSet that should run on the Node has a Pod there, all critical Pods on it are ready, and all CSI drivers for which
// they wait are registered.
//
// All objects are in the target cluster. Nodes, critical Pods, critical DaemonSets and CSINodes are watched, and reduced to the relevant
// fields before they are cached. When the caches show that a Node is ready, the controller reads DaemonSets, Pods and the CSINode live to
// confirm it, since one cache may lag behind another, or may be outdated because of a lost right. Then one patch removes the taint; it
// fails if the labels or taints of the Node, on which the decision rests, have changed. The taint is the only state: a process that stops
// before the patch leaves the taint in place, and after the patch only an Event may be missing.
package criticalcomponents

import (
	"context"
	"fmt"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/utils/clock"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/log"

	"github.com/espalier-dev/espalier/internal/config"
	"github.com/espalier-dev/espalier/internal/process"
)

// Nodes are watched, and patched to remove the taint.
// +kubebuilder:rbac:groups="",resources=nodes,verbs=list;watch;patch,roleName=espalier-node-controller-target
// Critical Pods and DaemonSets are watched, and listed again before a taint is removed.
// +kubebuilder:rbac:groups="",resources=pods,verbs=list;watch,roleName=espalier-node-controller-target
// +kubebuilder:rbac:groups=apps,resources=daemonsets,verbs=list;watch,roleName=espalier-node-controller-target
// CSINodes are watched, and the CSINode of a Node is read again before its taint is removed.
// +kubebuilder:rbac:groups=storage.k8s.io,resources=csinodes,verbs=get;list;watch,roleName=espalier-node-controller-target
// Events report the objects that a Node waits for, and mistakes in objects.
// +kubebuilder:rbac:groups=events.k8s.io,resources=events,verbs=create;patch,roleName=espalier-node-controller-target
// In the source cluster, the replicas only elect their leader.
// +kubebuilder:rbac:groups="",resources=events,verbs=create;patch,namespace=espalier-system,roleName=espalier-node-controller-lease
// +kubebuilder:rbac:groups=coordination.k8s.io,resources=leases,verbs=create,namespace=espalier-system,roleName=espalier-node-controller-lease
// +kubebuilder:rbac:groups=coordination.k8s.io,resources=leases,resourceNames=gardener-resource-manager-node-controller,verbs=get;update,namespace=espalier-system,roleName=espalier-node-controller-lease

// defaultBackoff is used if no pause, or no positive one, is configured.
const defaultBackoff = 10 * time.Second

// Reconciler removes the taint of Nodes.
type Reconciler struct {
	// Client reads from the caches and writes.
	Client client.Client
	// Live reads from the API server.
	Live client.Reader
	// Namespaces are the namespaces of critical components; one empty name stands for all.
	Namespaces []string
	// Config contains the settings that Gardener has, Own contains others.
	Config  config.NodeController
	Own     config.EspalierNode
	Clock   clock.PassiveClock
	Events  *Events
	Metrics *Metrics

	waiting *waiting // set by SetupWithManager
}

// Reconcile checks one Node, and removes its taint if it waits for nothing.
func (r *Reconciler) Reconcile(ctx context.Context, request ctrl.Request) (ctrl.Result, error) {
	node := &corev1.Node{}
	err := r.Client.Get(ctx, request.NamespacedName, node)
	if apierrors.IsNotFound(err) || err == nil && !tainted(node) {
		r.waiting.forget(request.Name)
		return ctrl.Result{}, nil
	}
	if err != nil {
		return ctrl.Result{}, fmt.Errorf("read Node: %w", err)
	}
	if r.waiting.isRemoved(node) {
		return ctrl.Result{}, nil // the cache does not contain the removal yet
	}
	found, err := r.look(ctx, node)
	if err == nil && found == nil {
		err = r.removeTaint(ctx, node)
	}
	switch {
	case err != nil:
		r.reportFailure(ctx, node, err)
		return ctrl.Result{}, err
	case found != nil:
		r.reportFinding(ctx, node, *found)
		return ctrl.Result{RequeueAfter: backoff(r.Config)}, nil
	}
	return ctrl.Result{}, nil
}

// backoff returns the pause before a waiting Node is checked again without a change, which is also the minimum time between two Events
// about it. The validation does not check the setting, and without a positive pause there would be no further check.
func backoff(section config.NodeController) time.Duration {
	if section.Backoff == nil || section.Backoff.Duration <= 0 {
		return defaultBackoff
	}
	return section.Backoff.Duration
}

// look returns the finding about a Node; nil if caches and API server both show that it waits for nothing.
func (r *Reconciler) look(ctx context.Context, node *corev1.Node) (*finding, error) {
	cached, err := gather(ctx, r.Client, []string{""}, node, r.Own.Required())
	if err != nil {
		return nil, err
	}
	r.Events.invalid(cached, r.waiting.toldBefore)
	if found := judge(cached); found != nil {
		return found, nil
	}
	live, err := gather(ctx, r.Live, r.Namespaces, node, r.Own.Required())
	if err != nil {
		return nil, err
	}
	return judge(live), nil
}

func (r *Reconciler) removeTaint(ctx context.Context, node *corev1.Node) error {
	patch, err := removal(node)
	if err != nil {
		return err
	}
	patched := &corev1.Node{ObjectMeta: process.Identity(node)}
	err = r.Client.Patch(ctx, patched, client.RawPatch(types.JSONPatchType, patch))
	if apierrors.IsNotFound(err) {
		return nil // its deletion triggers the next reconciliation
	}
	if err != nil {
		return fmt.Errorf("remove taint of Node %q: %w", node.Name, err)
	}
	r.waiting.removed(node, patched.ResourceVersion, r.Clock.Now())
	r.Events.ready(node)
	log.FromContext(ctx).Info("All node-critical components got ready, removed taint")
	return nil
}

func (r *Reconciler) reportFinding(ctx context.Context, node *corev1.Node, found finding) {
	before, tell := r.waiting.held(node, found.cause, r.Clock.Now())
	if tell {
		r.Events.heldBack(node, found)
	}
	logger := log.FromContext(ctx)
	if before == found.cause {
		logger = logger.V(1)
	}
	logger.Info("Node keeps its taint", "cause", found.cause, "waitsFor", found.note())
}

// reportFailure sends an Event. controller-runtime logs the error.
func (r *Reconciler) reportFailure(ctx context.Context, node *corev1.Node, err error) {
	if ctx.Err() != nil {
		return // the process is stopping
	}
	if _, tell := r.waiting.held(node, failed, r.Clock.Now()); tell {
		r.Events.failed(node, err)
	}
}
