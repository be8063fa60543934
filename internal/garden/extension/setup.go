package extension

import (
	"context"
	"fmt"
	"slices"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/selection"
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
	resourcesv1alpha1 "github.com/espalier-dev/espalier/api/resources/v1alpha1"
	"github.com/espalier-dev/espalier/internal/conflict"
	"github.com/espalier-dev/espalier/internal/garden/extension/rules"
	"github.com/espalier-dev/espalier/internal/garden/late"
	"github.com/espalier-dev/espalier/internal/process"
	"github.com/espalier-dev/espalier/internal/rollout"
)

// ControllerName names the controller in logs and metrics.
const ControllerName = "extension"

const (
	// The pause after a failure grows from shortestPause to longestPause. A registry may be away for hours.
	shortestPause = time.Second
	longestPause  = 5 * time.Minute
	// deadline bounds a run, which pulls and renders up to three charts.
	deadline = 5 * time.Minute
)

// SetupWithManager adds the controller to the manager. The API server need not serve ManagedResources yet: a later reconciliation begins to
// watch them.
func (r *Reconciler) SetupWithManager(mgr ctrl.Manager) error {
	referenced, err := newCache(mgr, r.Namespace)
	if err != nil {
		return err
	}
	all := handler.EnqueueRequestsFromMapFunc(r.all(func(*operatorv1alpha1.Extension, client.Object) bool { return true }))
	referring := handler.EnqueueRequestsFromMapFunc(r.all(refersTo))
	controller := ctrl.NewControllerManagedBy(mgr).
		Named(ControllerName).
		For(&operatorv1alpha1.Extension{}, builder.WithPredicates(extensions())).
		Watches(&operatorv1alpha1.Garden{}, all, builder.WithPredicates(gardens())).
		WithOptions(process.ControllerOptions(r.Workers, deadline, shortestPause, longestPause))
	for _, kind := range []string{"Secret", "ConfigMap"} {
		metadata := &metav1.PartialObjectMetadata{}
		metadata.SetGroupVersionKind(corev1.SchemeGroupVersion.WithKind(kind))
		controller = controller.WatchesRawSource(source.Kind[client.Object](referenced, metadata, referring, contents()))
	}
	built, err := controller.Build(conflict.RetryAtOnce(reconcile.AsReconciler(r.Client, r)))
	if err != nil {
		return fmt.Errorf("add controller %s: %w", ControllerName, err)
	}
	r.watch = late.NewWatch(mgr.GetRESTMapper(), rollout.ManagedResource.GroupKind(), func() error {
		return built.Watch(source.Kind[client.Object](
			mgr.GetCache(), &resourcesv1alpha1.ManagedResource{}, handler.EnqueueRequestsFromMapFunc(OfSet), managedResources(),
		))
	})
	return nil
}

// newCache returns a cache for metadata of objects in the namespace of the Garden. The cache contains all ConfigMaps, and the Secrets
// whose role label has one of the roles for objects that Extensions refer to.
func newCache(mgr ctrl.Manager, namespace string) (cache.Cache, error) {
	roles, err := labels.NewRequirement(operatorv1alpha1.LabelRole, selection.In, []string{
		operatorv1alpha1.RolePullSecret, operatorv1alpha1.RoleCABundle, operatorv1alpha1.RoleResourceReference,
	})
	if err != nil {
		return nil, fmt.Errorf("select Secrets: %w", err)
	}
	secrets, configMaps := &metav1.PartialObjectMetadata{}, &metav1.PartialObjectMetadata{}
	secrets.SetGroupVersionKind(corev1.SchemeGroupVersion.WithKind("Secret"))
	configMaps.SetGroupVersionKind(corev1.SchemeGroupVersion.WithKind("ConfigMap"))
	referenced, err := cache.New(mgr.GetConfig(), cache.Options{
		HTTPClient: mgr.GetHTTPClient(), Scheme: mgr.GetScheme(), Mapper: mgr.GetRESTMapper(),
		DefaultNamespaces: map[string]cache.Config{namespace: {}}, DefaultTransform: cache.TransformStripManagedFields(),
		ByObject: map[client.Object]cache.ByObject{secrets: {Label: labels.NewSelector().Add(*roles)}, configMaps: {}},
	})
	if err != nil {
		return nil, fmt.Errorf("create cache for references of Extensions: %w", err)
	}
	return referenced, mgr.Add(referenced)
}

// all returns a function that requests the Extensions for which an object is relevant.
func (r *Reconciler) all(isRelevant func(*operatorv1alpha1.Extension, client.Object) bool) handler.MapFunc {
	return func(ctx context.Context, o client.Object) (requests []reconcile.Request) {
		list := &operatorv1alpha1.ExtensionList{}
		if err := r.Client.List(ctx, list); err != nil {
			log.FromContext(ctx).Error(err, "Cannot list extensions")
		}
		for i := range list.Items {
			if isRelevant(&list.Items[i], o) {
				requests = append(requests, requestFor(list.Items[i].Name))
			}
		}
		return requests
	}
}

func requestFor(name string) reconcile.Request {
	return reconcile.Request{NamespacedName: types.NamespacedName{Name: name}}
}

// refersTo reports whether an Extension refers to a Secret or ConfigMap.
func refersTo(e *operatorv1alpha1.Extension, o client.Object) bool {
	kind := o.GetObjectKind().GroupVersionKind().Kind
	return slices.ContainsFunc(rules.References(e), func(r rules.Reference) bool { return r.Kind == kind && r.Name == o.GetName() })
}

// OfSet returns the request for the Extension of a ManagedResource.
func OfSet(_ context.Context, o client.Object) []reconcile.Request {
	if name := o.GetLabels()[operatorv1alpha1.ExtensionName]; name != "" {
		return []reconcile.Request{requestFor(name)}
	}
	return nil
}

// extensions selects new Extensions, and Extensions whose spec or Pod Security annotation changes, whose deletion begins, or whose
// condition RequiredRuntime becomes true or ceases to be true.
func extensions() predicate.Predicate {
	return predicate.Funcs{
		DeleteFunc:  func(event.DeleteEvent) bool { return false },
		GenericFunc: func(event.GenericEvent) bool { return false },
		UpdateFunc: func(e event.UpdateEvent) bool {
			old, wasExtension := e.ObjectOld.(*operatorv1alpha1.Extension)
			updated, isExtension := e.ObjectNew.(*operatorv1alpha1.Extension)
			if !wasExtension || !isExtension {
				return false
			}
			const enforce, required = operatorv1alpha1.AnnotationPodSecurityEnforce, operatorv1alpha1.ExtensionRequiredRuntime
			return old.Generation != updated.Generation || old.DeletionTimestamp == nil && updated.DeletionTimestamp != nil ||
				old.Annotations[enforce] != updated.Annotations[enforce] ||
				corev1beta1.IsTrue(old.Status.Conditions, required) != corev1beta1.IsTrue(updated.Status.Conditions, required)
		},
	}
}

// gardens selects Gardens that appear and disappear, changes of their stage, and Gardens whose virtual cluster is given up.
func gardens() predicate.Predicate {
	return predicate.Funcs{
		GenericFunc: func(event.GenericEvent) bool { return false },
		UpdateFunc: func(e event.UpdateEvent) bool {
			old, wasGarden := e.ObjectOld.(*operatorv1alpha1.Garden)
			updated, isGarden := e.ObjectNew.(*operatorv1alpha1.Garden)
			return wasGarden && isGarden && (stageOf(old) != stageOf(updated) || abandons(old) != abandons(updated))
		},
	}
}

// contents selects all events of Secrets and ConfigMaps, except for the updates without a change that an informer repeats.
func contents() predicate.Predicate { return predicate.ResourceVersionChangedPredicate{} }

// managedResources selects ManagedResources that disappear, or whose readiness changes.
func managedResources() predicate.Predicate {
	return predicate.Funcs{
		CreateFunc:  func(event.CreateEvent) bool { return false },
		GenericFunc: func(event.GenericEvent) bool { return false },
		UpdateFunc: func(e event.UpdateEvent) bool {
			old, wasSet := e.ObjectOld.(*resourcesv1alpha1.ManagedResource)
			updated, isSet := e.ObjectNew.(*resourcesv1alpha1.ManagedResource)
			return wasSet && isSet && notReady(old) != notReady(updated)
		},
	}
}
