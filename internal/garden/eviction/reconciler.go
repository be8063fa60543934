// Package eviction sets the eviction requirements of VerticalPodAutoscalers, so that etcds lose CPU and memory only when that is allowed.
//
// It watches the VerticalPodAutoscalers with the label autoscaling.gardener.cloud/eviction-requirements: managed-by-controller in all
// namespaces of the runtime cluster, for the etcds of the Garden, and for the etcds of Shoots if the runtime cluster is a seed.
// Annotations say when the vertical pod autoscaler may evict a Pod only to give it less CPU or memory: never, or in a maintenance window.
// At all other times, the requirements allow only evictions that give a Pod more CPU or memory. The controller acts when the window opens
// and closes. It begins to watch when there is a Garden and the API server serves VerticalPodAutoscalers. It writes the requirements and
// nothing else. If the process stops before the write, the next process writes them.
package eviction

import (
	"context"
	"fmt"
	"reflect"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/utils/clock"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/log"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"

	operatorv1alpha1 "github.com/espalier-dev/espalier/api/operator/v1alpha1"
	"github.com/espalier-dev/espalier/internal/conflict"
	"github.com/espalier-dev/espalier/internal/garden/component/object"
	"github.com/espalier-dev/espalier/internal/garden/late"
)

// Gardens are watched.
// +kubebuilder:rbac:groups=operator.gardener.cloud,resources=gardens,verbs=list;watch

// VerticalPodAutoscalers are watched, and their eviction requirements are written.
// +kubebuilder:rbac:groups=autoscaling.k8s.io,resources=verticalpodautoscalers,verbs=get;list;watch;patch

// Reconciler sets eviction requirements.
type Reconciler struct {
	// Client reads VerticalPodAutoscalers live, because only their metadata is watched, and patches them.
	Client client.Client
	Clock  clock.PassiveClock

	watch *late.Watch
}

// Reconcile sets the eviction requirements of a VerticalPodAutoscaler, and asks to be called again when the maintenance window of the
// VerticalPodAutoscaler opens or closes. A request without a namespace is for a Garden: then Reconcile begins to watch
// VerticalPodAutoscalers, if the API server serves VerticalPodAutoscalers now.
func (r *Reconciler) Reconcile(ctx context.Context, request ctrl.Request) (ctrl.Result, error) {
	if request.Namespace == "" {
		return ctrl.Result{}, r.watch.Begin()
	}
	autoscaler := &unstructured.Unstructured{}
	autoscaler.SetGroupVersionKind(object.AutoscalerKind)
	if err := r.Client.Get(ctx, request.NamespacedName, autoscaler); err != nil {
		return ctrl.Result{}, client.IgnoreNotFound(err)
	}
	if autoscaler.GetDeletionTimestamp() != nil || !isManaged(autoscaler) {
		return ctrl.Result{}, nil // the label was removed since the request
	}
	found, problem := decide(autoscaler.GetAnnotations(), r.Clock.Now())
	if problem != nil {
		problem = reconcile.TerminalError(problem) // only a change of the annotations can help
	}
	if found == nil {
		return ctrl.Result{}, problem
	}
	if err := r.write(ctx, autoscaler, requirements(found.onlyUpscale)); err != nil {
		return ctrl.Result{}, err
	}
	return ctrl.Result{RequeueAfter: found.remains}, problem
}

// isManaged reports whether the controller sets the eviction requirements of a VerticalPodAutoscaler.
func isManaged(o client.Object) bool {
	return o.GetLabels()[operatorv1alpha1.LabelEvictionRequirements] == operatorv1alpha1.EvictionRequirementsManaged
}

// write replaces the eviction requirements if they differ. Nil removes them.
func (r *Reconciler) write(ctx context.Context, autoscaler *unstructured.Unstructured, wanted []any) error {
	if current := object.EvictionRequirements(autoscaler); len(current) == 0 && len(wanted) == 0 || reflect.DeepEqual(current, wanted) {
		return nil
	}
	updated := autoscaler.DeepCopy()
	path := []string{"spec", "updatePolicy", "evictionRequirements"}
	if wanted == nil {
		unstructured.RemoveNestedField(updated.Object, path...)
	} else if err := unstructured.SetNestedSlice(updated.Object, wanted, path...); err != nil {
		return fmt.Errorf("set eviction requirements: %w", err)
	}
	if err := r.Client.Patch(ctx, updated, conflict.MergeFrom(autoscaler)); client.IgnoreNotFound(err) != nil {
		return fmt.Errorf("write eviction requirements: %w", err)
	}
	log.FromContext(ctx).Info("Set eviction requirements", "onlyUpscale", wanted != nil)
	return nil
}
