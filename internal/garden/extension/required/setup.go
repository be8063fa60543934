package required

import (
	"context"
	"fmt"
	"slices"
	"time"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/builder"
	"sigs.k8s.io/controller-runtime/pkg/cache"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/event"
	"sigs.k8s.io/controller-runtime/pkg/handler"
	"sigs.k8s.io/controller-runtime/pkg/log"
	"sigs.k8s.io/controller-runtime/pkg/predicate"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"
	"sigs.k8s.io/controller-runtime/pkg/source"

	corev1beta1 "github.com/espalier-dev/espalier/api/core/v1beta1"
	operatorv1alpha1 "github.com/espalier-dev/espalier/api/operator/v1alpha1"
	"github.com/espalier-dev/espalier/internal/conflict"
	"github.com/espalier-dev/espalier/internal/garden/late"
	"github.com/espalier-dev/espalier/internal/process"
)

// Names of the controllers in logs and metrics.
const (
	RuntimeControllerName = "extension-required-runtime"
	VirtualControllerName = "extension-required-virtual"
)

const (
	// The pause after a failure grows from shortestPause to longestPause.
	shortestPause = 100 * time.Millisecond
	longestPause  = time.Minute
)

// SetupWithManager adds the controller to the manager. The API server need not serve the kinds of extension objects yet: later
// reconciliations begin to watch them.
func (r *Runtime) SetupWithManager(mgr ctrl.Manager) error {
	objects, err := cache.New(mgr.GetConfig(), cache.Options{
		HTTPClient: mgr.GetHTTPClient(), Scheme: mgr.GetScheme(), Mapper: mgr.GetRESTMapper(), DefaultTransform: reduce,
	})
	if err != nil {
		return fmt.Errorf("create cache for extension objects: %w", err)
	}
	err = mgr.Add(objects)
	if err != nil {
		return err
	}
	r.objects = objects
	built, err := ctrl.NewControllerManagedBy(mgr).
		Named(RuntimeControllerName).
		For(&operatorv1alpha1.Extension{}, builder.WithPredicates(extensions(operatorv1alpha1.ExtensionRequiredRuntime))).
		Watches(&operatorv1alpha1.Garden{}, handler.EnqueueRequestsFromMapFunc(
			func(ctx context.Context, _ client.Object) []reconcile.Request { return requests(ctx, r.Client, nil) },
		), builder.WithPredicates(predicate.GenerationChangedPredicate{})).
		WithOptions(process.ControllerOptions(r.Workers, process.Deadline, shortestPause, longestPause)).
		Build(conflict.RetryAtOnce(reconcile.AsReconciler(r.Client, r)))
	if err != nil {
		return fmt.Errorf("add controller %s: %w", RuntimeControllerName, err)
	}
	enqueue := handler.EnqueueRequestsFromMapFunc(func(ctx context.Context, o client.Object) []reconcile.Request {
		object, ok := o.(*unstructured.Unstructured)
		if !ok {
			return nil
		}
		of, _ := resourceOf(object)
		return requests(ctx, r.Client, &of)
	})
	r.watches = map[schema.GroupVersionKind]*late.Watch{}
	for _, kind := range kinds() {
		object := &unstructured.Unstructured{}
		object.SetGroupVersionKind(kind)
		r.watches[kind] = late.NewWatch(mgr.GetRESTMapper(), kind.GroupKind(), func() error {
			return built.Watch(source.Kind[client.Object](objects, object, enqueue, predicate.GenerationChangedPredicate{}))
		})
	}
	return nil
}

// extensions selects Extensions that appear, disappear, or whose spec or condition changes.
func extensions(condition corev1beta1.ConditionType) predicate.Predicate {
	return predicate.Or(predicate.GenerationChangedPredicate{}, predicate.Funcs{UpdateFunc: func(e event.UpdateEvent) bool {
		before, wasExtension := e.ObjectOld.(*operatorv1alpha1.Extension)
		after, isExtension := e.ObjectNew.(*operatorv1alpha1.Extension)
		return wasExtension && isExtension &&
			corev1beta1.ConditionsDiffer(before.Status.Conditions, after.Status.Conditions, condition)
	}})
}

// reduce keeps the part of an extension object that the decision reads.
func reduce(o any) (any, error) {
	object, ok := o.(*unstructured.Unstructured)
	if !ok {
		return o, nil
	}
	typ, _, _ := unstructured.NestedString(object.Object, "spec", "type")
	class, _, _ := unstructured.NestedString(object.Object, "spec", "class")
	kept := &unstructured.Unstructured{Object: map[string]any{"spec": map[string]any{"type": typ, "class": class}}}
	kept.SetGroupVersionKind(object.GroupVersionKind())
	kept.SetNamespace(object.GetNamespace())
	kept.SetName(object.GetName())
	kept.SetUID(object.GetUID())
	kept.SetResourceVersion(object.GetResourceVersion())
	kept.SetGeneration(object.GetGeneration())
	return kept, nil
}

// requests returns requests for the Extensions that are responsible for a resource, or for all Extensions if of is nil.
func requests(ctx context.Context, c client.Reader, of *resource) (all []reconcile.Request) {
	list := &operatorv1alpha1.ExtensionList{}
	if err := c.List(ctx, list); err != nil {
		log.FromContext(ctx).Error(err, "Cannot list extensions")
	}
	for i := range list.Items {
		responsible := slices.ContainsFunc(list.Items[i].Spec.Resources, func(r operatorv1alpha1.ExtensionResource) bool {
			return of != nil && resource{r.Kind, r.Type} == *of
		})
		if of == nil || responsible {
			all = append(all, reconcile.Request{NamespacedName: types.NamespacedName{Name: list.Items[i].Name}})
		}
	}
	return all
}

// SetupWithManager adds the controller to the manager.
func (r *Virtual) SetupWithManager(mgr ctrl.Manager) error {
	err := ctrl.NewControllerManagedBy(mgr).
		Named(VirtualControllerName).
		For(&operatorv1alpha1.Extension{}, builder.WithPredicates(extensions(operatorv1alpha1.ExtensionRequiredVirtual))).
		Watches(&operatorv1alpha1.Garden{}, handler.EnqueueRequestsFromMapFunc(
			func(ctx context.Context, _ client.Object) []reconcile.Request { return requests(ctx, r.Client, nil) },
		), builder.WithPredicates(predicate.Funcs{UpdateFunc: func(event.UpdateEvent) bool { return false }})).
		WatchesRawSource(r.Installations.Source()).
		WithOptions(process.ControllerOptions(r.Workers, process.Deadline, shortestPause, longestPause)).
		Complete(conflict.RetryAtOnce(reconcile.AsReconciler(r.Client, r)))
	if err != nil {
		return fmt.Errorf("add controller %s: %w", VirtualControllerName, err)
	}
	return nil
}
