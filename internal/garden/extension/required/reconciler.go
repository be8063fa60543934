// Package required reports in two conditions whether an Extension is needed. The condition RequiredRuntime says whether the Garden or
// objects of class garden in the runtime cluster need it. The condition RequiredVirtual says whether Seeds need it.
//
// It watches Extensions, Gardens, the kinds of extensions.gardener.cloud that a Garden uses in the runtime cluster, and
// ControllerInstallations in the virtual cluster. It writes the two conditions and nothing else. If the process stops before the write,
// the next run writes them.
package required

import (
	"context"
	"fmt"
	"time"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/utils/clock"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"

	corev1beta1 "github.com/espalier-dev/espalier/api/core/v1beta1"
	operatorv1alpha1 "github.com/espalier-dev/espalier/api/operator/v1alpha1"
	"github.com/espalier-dev/espalier/internal/conflict"
	"github.com/espalier-dev/espalier/internal/garden/extension/installations"
	"github.com/espalier-dev/espalier/internal/garden/late"
)

// Extensions and Gardens are watched, and conditions of Extensions are written.
// +kubebuilder:rbac:groups=operator.gardener.cloud,resources=extensions;gardens,verbs=list;watch
// +kubebuilder:rbac:groups=operator.gardener.cloud,resources=extensions/status,verbs=patch

// Objects of extensions are watched.
// +kubebuilder:rbac:groups=extensions.gardener.cloud,resources=backupbuckets;backupentries;dnsrecords;extensions,verbs=list;watch

// kinds are the kinds of extension objects that a Garden may have in the runtime cluster.
func kinds() []schema.GroupVersionKind {
	version := schema.GroupVersion{Group: "extensions.gardener.cloud", Version: "v1alpha1"}
	return []schema.GroupVersionKind{
		version.WithKind("BackupBucket"), version.WithKind("BackupEntry"), version.WithKind("DNSRecord"),
		version.WithKind(operatorv1alpha1.KindExtension),
	}
}

// retryKinds is the pause before the next attempt, if the API server does not serve a kind yet, or if the ControllerInstallations of the
// virtual cluster are not known yet.
const retryKinds = 10 * time.Second

// Runtime writes the condition RequiredRuntime.
type Runtime struct {
	// Client reads Extensions and Gardens from the cache, and patches the status of Extensions.
	Client  client.Client
	Clock   clock.PassiveClock
	Workers int

	// objects reads extension objects from a cache.
	objects client.Reader
	watches map[schema.GroupVersionKind]*late.Watch
}

// Reconcile writes the condition if it changes.
func (r *Runtime) Reconcile(ctx context.Context, e *operatorv1alpha1.Extension) (ctrl.Result, error) {
	gardens := &operatorv1alpha1.GardenList{}
	if err := r.Client.List(ctx, gardens, client.Limit(1)); err != nil {
		return ctrl.Result{}, fmt.Errorf("list gardens: %w", err)
	}
	var garden *operatorv1alpha1.Garden
	if len(gardens.Items) > 0 {
		garden = &gardens.Items[0]
	}
	existing, complete, err := r.existing(ctx)
	if err != nil {
		return ctrl.Result{}, err
	}
	if err := write(ctx, r.Client, r.Clock, e, operatorv1alpha1.ExtensionRequiredRuntime, decideRuntime(e, garden, existing)); err != nil {
		return ctrl.Result{}, err
	}
	if !complete && garden != nil {
		return ctrl.Result{RequeueAfter: retryKinds}, nil
	}
	return ctrl.Result{}, nil
}

// existing returns the resources of class garden in the runtime cluster. Complete is false if the API server does not serve one of the
// kinds yet.
func (r *Runtime) existing(ctx context.Context) (found map[resource]bool, complete bool, err error) {
	found, complete = map[resource]bool{}, true
	for _, kind := range kinds() {
		watch := r.watches[kind]
		if err := watch.Begin(); err != nil {
			return nil, false, err
		}
		if !watch.HasBegun() {
			complete = false
			continue
		}
		list := &unstructured.UnstructuredList{}
		list.SetGroupVersionKind(kind.GroupVersion().WithKind(kind.Kind + "List"))
		if err := r.objects.List(ctx, list); err != nil {
			return nil, false, fmt.Errorf("list objects of kind %s: %w", kind.Kind, err)
		}
		for i := range list.Items {
			if each, isGardens := resourceOf(&list.Items[i]); isGardens {
				found[each] = true
			}
		}
	}
	return found, complete, nil
}

// resourceOf returns the resource of an extension object, and whether it is of class garden.
func resourceOf(o *unstructured.Unstructured) (resource, bool) {
	typ, _, _ := unstructured.NestedString(o.Object, "spec", "type")
	class, _, _ := unstructured.NestedString(o.Object, "spec", "class")
	return resource{o.GetKind(), typ}, class == classGarden
}

// Virtual writes the condition RequiredVirtual.
type Virtual struct {
	// Client reads Extensions and Gardens from the cache, and patches the status of Extensions.
	Client client.Client
	Clock  clock.PassiveClock
	// Installations watches the ControllerInstallations of the virtual cluster.
	Installations *installations.Watch
	Workers       int
}

// Reconcile writes the condition if it changes. As long as the virtual cluster does not answer, the condition stays as it is.
func (r *Virtual) Reconcile(ctx context.Context, e *operatorv1alpha1.Extension) (ctrl.Result, error) {
	gardens := &operatorv1alpha1.GardenList{}
	if err := r.Client.List(ctx, gardens, client.Limit(1)); err != nil {
		return ctrl.Result{}, fmt.Errorf("list gardens: %w", err)
	}
	all, known := r.Installations.Of(e.Name)
	if !known && len(gardens.Items) > 0 {
		return ctrl.Result{RequeueAfter: retryKinds}, nil
	}
	return ctrl.Result{}, write(ctx, r.Client, r.Clock, e, operatorv1alpha1.ExtensionRequiredVirtual, decideVirtual(all))
}

// write writes a condition of an Extension if it changes.
func write(
	ctx context.Context, c client.Client, clk clock.PassiveClock, e *operatorv1alpha1.Extension, of corev1beta1.ConditionType, v verdict,
) error {
	before := corev1beta1.GetCondition(e.Status.Conditions, of)
	if before != nil && before.Status == v.status && before.Reason == v.reason && before.Message == v.message {
		return nil
	}
	updated := e.DeepCopy()
	condition := corev1beta1.UpdatedCondition(
		clk, corev1beta1.GetOrInitCondition(clk, e.Status.Conditions, of), v.status, v.reason, v.message,
	)
	updated.Status.Conditions = corev1beta1.MergeConditions(e.Status.Conditions, condition)
	if err := c.Status().Patch(ctx, updated, conflict.MergeFrom(e)); client.IgnoreNotFound(err) != nil {
		return fmt.Errorf("write condition %s of Extension %q: %w", of, e.Name, err)
	}
	return nil
}
