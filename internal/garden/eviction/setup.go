package eviction

import (
	"fmt"
	"maps"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/builder"
	"sigs.k8s.io/controller-runtime/pkg/cache"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/event"
	"sigs.k8s.io/controller-runtime/pkg/handler"
	"sigs.k8s.io/controller-runtime/pkg/predicate"
	"sigs.k8s.io/controller-runtime/pkg/source"

	operatorv1alpha1 "github.com/espalier-dev/espalier/api/operator/v1alpha1"
	"github.com/espalier-dev/espalier/internal/conflict"
	"github.com/espalier-dev/espalier/internal/garden/component/object"
	"github.com/espalier-dev/espalier/internal/garden/late"
	"github.com/espalier-dev/espalier/internal/process"
)

// ControllerName names the controller in logs and metrics.
const ControllerName = "vpa-eviction-requirements"

const (
	// workers is the number of VerticalPodAutoscalers that are reconciled at the same time: the windows of many open and close together.
	workers = 5
	// The pause after a failure grows from shortestPause to longestPause.
	shortestPause = 100 * time.Millisecond
	longestPause  = time.Minute
)

// SetupWithManager adds the controller to the manager. The API server need not serve VerticalPodAutoscalers yet: a later reconciliation of
// a Garden begins to watch them.
func (r *Reconciler) SetupWithManager(mgr ctrl.Manager) error {
	managed, err := newCache(mgr)
	if err != nil {
		return err
	}
	built, err := ctrl.NewControllerManagedBy(mgr).
		Named(ControllerName).
		For(&operatorv1alpha1.Garden{}, builder.WithPredicates(predicate.NewPredicateFuncs(func(client.Object) bool {
			return !r.watch.HasBegun()
		}))).
		WithOptions(process.ControllerOptions(workers, process.Deadline, shortestPause, longestPause)).
		Build(conflict.RetryAtOnce(r))
	if err != nil {
		return err
	}
	metadata := &metav1.PartialObjectMetadata{}
	metadata.SetGroupVersionKind(object.AutoscalerKind)
	r.watch = late.NewWatch(mgr.GetRESTMapper(), object.AutoscalerKind.GroupKind(), func() error {
		return built.Watch(source.Kind[client.Object](managed, metadata, &handler.EnqueueRequestForObject{}, relevant()))
	})
	return nil
}

// newCache returns a cache for metadata of the VerticalPodAutoscalers that the controller manages. The cache of the manager would keep all,
// and cannot be restricted, because a manager cannot be created with options for a kind that is not served yet.
func newCache(mgr ctrl.Manager) (cache.Cache, error) {
	managed, err := cache.New(mgr.GetConfig(), cache.Options{
		HTTPClient: mgr.GetHTTPClient(), Scheme: mgr.GetScheme(), Mapper: mgr.GetRESTMapper(),
		DefaultLabelSelector: labels.SelectorFromSet(labels.Set{
			operatorv1alpha1.LabelEvictionRequirements: operatorv1alpha1.EvictionRequirementsManaged,
		}),
		DefaultTransform: cache.TransformStripManagedFields(),
	})
	if err != nil {
		return nil, fmt.Errorf("create cache for VerticalPodAutoscalers: %w", err)
	}
	return managed, mgr.Add(managed)
}

// relevant selects VerticalPodAutoscalers that appear, and whose spec or annotations change. Their recommendations change once a minute.
func relevant() predicate.Predicate {
	return predicate.Funcs{
		DeleteFunc:  func(event.DeleteEvent) bool { return false },
		GenericFunc: func(event.GenericEvent) bool { return false },
		UpdateFunc: func(e event.UpdateEvent) bool {
			return e.ObjectOld.GetGeneration() != e.ObjectNew.GetGeneration() ||
				!maps.Equal(e.ObjectOld.GetAnnotations(), e.ObjectNew.GetAnnotations())
		},
	}
}
