// Package prometheus replaces prometheus-operator: it reports every Prometheus as available, and starts no Pods. The health of a Seed, and
// the vertical pod autoscaler, depend on this status.
package prometheus

import (
	"context"
	"fmt"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/rest"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"
	metricsserver "sigs.k8s.io/controller-runtime/pkg/metrics/server"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"
)

// newObject returns an empty Prometheus.
func newObject() *unstructured.Unstructured {
	o := &unstructured.Unstructured{}
	o.SetGroupVersionKind(schema.GroupVersionKind{Group: "monitoring.coreos.com", Version: "v1", Kind: "Prometheus"})
	return o
}

// Run sets the status of every Prometheus until the context ends. The cluster must have the kind.
func Run(ctx context.Context, config *rest.Config) error {
	mgr, err := ctrl.NewManager(config, ctrl.Options{Metrics: metricsserver.Options{BindAddress: "0"}})
	if err != nil {
		return fmt.Errorf("create manager: %w", err)
	}
	if err := ctrl.NewControllerManagedBy(mgr).For(newObject()).Complete(&reconciler{client: mgr.GetClient(), now: metav1.Now}); err != nil {
		return fmt.Errorf("add controller: %w", err)
	}
	return mgr.Start(ctx)
}

type reconciler struct {
	client client.Client
	now    func() metav1.Time
}

// Reconcile sets the status of a Prometheus, once for each generation.
func (r *reconciler) Reconcile(ctx context.Context, request reconcile.Request) (reconcile.Result, error) {
	o := newObject()
	if err := r.client.Get(ctx, request.NamespacedName, o); err != nil {
		return reconcile.Result{}, client.IgnoreNotFound(err)
	}
	if observed(o) == o.GetGeneration() {
		return reconcile.Result{}, nil
	}
	before := o.DeepCopy()
	o.Object["status"] = r.status(o)
	if err := r.client.Status().Patch(ctx, o, client.MergeFrom(before)); client.IgnoreNotFound(err) != nil {
		return reconcile.Result{}, fmt.Errorf("set status: %w", err)
	}
	return reconcile.Result{}, nil
}

// observed returns the generation that the first condition is about; 0 if there is no condition.
func observed(o *unstructured.Unstructured) int64 {
	conditions, _, _ := unstructured.NestedSlice(o.Object, "status", "conditions")
	if len(conditions) == 0 {
		return 0
	}
	condition, _ := conditions[0].(map[string]any)
	generation, _, _ := unstructured.NestedInt64(condition, "observedGeneration")
	return generation
}

func (r *reconciler) status(o *unstructured.Unstructured) map[string]any {
	replicas, found, _ := unstructured.NestedInt64(o.Object, "spec", "replicas")
	if !found {
		replicas = 1
	}
	condition := func(kind string) any {
		return map[string]any{
			"type": kind, "status": "True", "reason": "StandIn", "message": "No Pod runs.",
			"lastTransitionTime": r.now().UTC().Format(time.RFC3339), "observedGeneration": o.GetGeneration(),
		}
	}
	return map[string]any{
		"paused": false, "replicas": replicas, "updatedReplicas": replicas, "availableReplicas": replicas, "unavailableReplicas": int64(0),
		// The vertical pod autoscaler refuses a Prometheus without a selector.
		"selector":   "app.kubernetes.io/name=prometheus,prometheus=" + o.GetName(),
		"conditions": []any{condition("Available"), condition("Reconciled")},
	}
}
