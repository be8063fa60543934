// Package health reports in three conditions of Extensions whether the parts of an Extension are healthy: the extension in Seeds, the
// extension in the runtime cluster, and the admission controllers.
//
// It watches Extensions, the ManagedResources of Extensions in the namespace of the Garden, and ControllerInstallations in the virtual
// cluster. It writes the three conditions, and removes a condition if the Extension does not have the part now. If the process stops
// before the write, the next run writes the conditions.
package health

import (
	"context"
	"fmt"
	"slices"
	"time"

	"k8s.io/apimachinery/pkg/api/equality"
	"k8s.io/utils/clock"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/builder"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/event"
	"sigs.k8s.io/controller-runtime/pkg/handler"
	"sigs.k8s.io/controller-runtime/pkg/predicate"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"
	"sigs.k8s.io/controller-runtime/pkg/source"

	corev1beta1 "github.com/espalier-dev/espalier/api/core/v1beta1"
	"github.com/espalier-dev/espalier/api/managedresources"
	operatorv1alpha1 "github.com/espalier-dev/espalier/api/operator/v1alpha1"
	resourcesv1alpha1 "github.com/espalier-dev/espalier/api/resources/v1alpha1"
	"github.com/espalier-dev/espalier/internal/conflict"
	"github.com/espalier-dev/espalier/internal/garden/extension"
	"github.com/espalier-dev/espalier/internal/garden/extension/installations"
	"github.com/espalier-dev/espalier/internal/garden/late"
	"github.com/espalier-dev/espalier/internal/process"
	"github.com/espalier-dev/espalier/internal/rollout"
)

// Extensions and ManagedResources are watched, and conditions of Extensions are written.
// +kubebuilder:rbac:groups=operator.gardener.cloud,resources=extensions,verbs=list;watch
// +kubebuilder:rbac:groups=operator.gardener.cloud,resources=extensions/status,verbs=patch
// +kubebuilder:rbac:groups=resources.gardener.cloud,resources=managedresources,verbs=list;watch

// ControllerName names the controller in logs and metrics.
const ControllerName = "extension-care"

// The pause after a failure grows from shortestPause up to the period of the controller.
const shortestPause = 100 * time.Millisecond

// Reconciler writes the conditions.
type Reconciler struct {
	// Client reads Extensions and ManagedResources from the cache, and patches the status of Extensions.
	Client client.Client
	Clock  clock.PassiveClock
	// Namespace is the namespace of the ManagedResources.
	Namespace string
	// Installations watches the ControllerInstallations of the virtual cluster.
	Installations *installations.Watch
	// Period is the time after which the conditions are checked again without a change.
	Period time.Duration

	watch *late.Watch
}

// Reconcile writes the conditions if they change. It asks to be called again after the period.
func (r *Reconciler) Reconcile(ctx context.Context, e *operatorv1alpha1.Extension) (ctrl.Result, error) {
	if r.watch != nil {
		if err := r.watch.Begin(); err != nil {
			return ctrl.Result{}, err
		}
	}
	f := facts{sets: map[string]*resourcesv1alpha1.ManagedResource{}}
	f.installations, f.known = r.Installations.Of(e.Name)
	for _, name := range append(extension.AdmissionSets(e), extension.RuntimeSet(e)) {
		set, err := rollout.Find(ctx, r.Client, r.Namespace, name, &resourcesv1alpha1.ManagedResource{})
		if err != nil {
			return ctrl.Result{}, err
		}
		f.sets[name] = set
	}
	updated := e.DeepCopy()
	for _, each := range check(e, f) {
		updated.Status.Conditions = r.applied(updated.Status.Conditions, each)
	}
	if !equality.Semantic.DeepEqual(e.Status, updated.Status) {
		if err := r.Client.Status().Patch(ctx, updated, conflict.MergeFrom(e)); client.IgnoreNotFound(err) != nil {
			return ctrl.Result{}, fmt.Errorf("write conditions of Extension %q: %w", e.Name, err)
		}
	}
	return ctrl.Result{RequeueAfter: r.Period}, nil
}

// applied returns the conditions after the verdict has set or removed one of them.
func (r *Reconciler) applied(conditions []corev1beta1.Condition, v verdict) []corev1beta1.Condition {
	if v.status == "" {
		return slices.DeleteFunc(conditions, func(c corev1beta1.Condition) bool { return c.Type == v.condition })
	}
	return corev1beta1.MergeConditions(conditions, corev1beta1.UpdatedCondition(
		r.Clock, corev1beta1.GetOrInitCondition(r.Clock, conditions, v.condition), v.status, v.reason, v.message,
	))
}

// SetupWithManager adds the controller to the manager. The API server need not serve ManagedResources yet: a later reconciliation begins to
// watch them.
func (r *Reconciler) SetupWithManager(mgr ctrl.Manager) error {
	built, err := ctrl.NewControllerManagedBy(mgr).
		Named(ControllerName).
		For(&operatorv1alpha1.Extension{}, builder.WithPredicates(extensions())).
		WatchesRawSource(r.Installations.Source()).
		WithOptions(process.ControllerOptions(1, process.Deadline, shortestPause, r.Period)).
		Build(conflict.RetryAtOnce(reconcile.AsReconciler(r.Client, r)))
	if err != nil {
		return fmt.Errorf("add controller %s: %w", ControllerName, err)
	}
	r.watch = late.NewWatch(mgr.GetRESTMapper(), rollout.ManagedResource.GroupKind(), func() error {
		return built.Watch(source.Kind[client.Object](
			mgr.GetCache(), &resourcesv1alpha1.ManagedResource{}, handler.EnqueueRequestsFromMapFunc(extension.OfSet), sets(),
		))
	})
	return nil
}

// extensions selects Extensions that appear, whose spec or conditions of this controller change, or that are or are no longer required.
func extensions() predicate.Predicate {
	return predicate.Funcs{
		DeleteFunc:  func(event.DeleteEvent) bool { return false },
		GenericFunc: func(event.GenericEvent) bool { return false },
		UpdateFunc: func(e event.UpdateEvent) bool {
			old, wasExtension := e.ObjectOld.(*operatorv1alpha1.Extension)
			updated, isExtension := e.ObjectNew.(*operatorv1alpha1.Extension)
			return wasExtension && isExtension && (old.Generation != updated.Generation || partsOf(old) != partsOf(updated) ||
				corev1beta1.ConditionsDiffer(old.Status.Conditions, updated.Status.Conditions, operatorv1alpha1.ControllerInstallationsHealthy,
					operatorv1alpha1.ExtensionRuntimeHealthy, operatorv1alpha1.ExtensionAdmissionHealthy))
		},
	}
}

// sets selects ManagedResources whose readiness changes.
func sets() predicate.Predicate {
	return predicate.Funcs{
		GenericFunc: func(event.GenericEvent) bool { return false },
		UpdateFunc: func(e event.UpdateEvent) bool {
			old, wasSet := e.ObjectOld.(*resourcesv1alpha1.ManagedResource)
			updated, isSet := e.ObjectNew.(*resourcesv1alpha1.ManagedResource)
			return wasSet && isSet && problemOf(old) != problemOf(updated)
		},
	}
}

// problem describes why a ManagedResource is not ready. The zero value stands for a ManagedResource that is ready.
type problem struct {
	message string
	// progressing is true if the objects are applied and healthy.
	progressing bool
}

func problemOf(set *resourcesv1alpha1.ManagedResource) problem {
	if err := managedresources.CheckAppliedAndHealthy(set); err != nil {
		return problem{message: err.Error()}
	}
	if err := managedresources.CheckNotProgressing(set); err != nil {
		return problem{message: err.Error(), progressing: true}
	}
	return problem{}
}
