package applier

import (
	"context"
	"errors"
	"fmt"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/log"

	resourcesv1alpha1 "github.com/espalier-dev/espalier/api/resources/v1alpha1"
	"github.com/espalier-dev/espalier/internal/apply/merge"
	"github.com/espalier-dev/espalier/internal/conflict"
	"github.com/espalier-dev/espalier/internal/managedresource/plan"
	"github.com/espalier-dev/espalier/internal/managedresource/state"
	"github.com/espalier-dev/espalier/internal/process"
)

// Plans are published in the namespaces of their sets, which are not known in advance, under names derived from the names of the sets. The
// controller neither lists nor watches ConfigMaps: it reads the ConfigMap of a plan by its name.
// +kubebuilder:rbac:groups="",resources=configmaps,verbs=get;create;update;delete,roleName=espalier-managedresource-controller-source

// planSet publishes the plan of a set. It does not change the objects, conditions and finalizers of the set.
func (r *Reconciler) planSet(ctx context.Context, mr *resourcesv1alpha1.ManagedResource) (ctrl.Result, error) {
	asked, err := r.takeOperation(ctx, mr)
	if err != nil {
		return ctrl.Result{}, err
	}
	s := r.Memory.Get(client.ObjectKeyFromObject(mr))
	s.Invalidate() // so that the next apply compares every object
	if _, malformed := merge.AsksForPlan(mr.Annotations); malformed {
		r.Events.planFault(mr, s, ReasonPlanAnnotationMalformed,
			fmt.Sprintf("Annotation %s has value %q, which is neither true nor false; the set is planned and not applied",
				resourcesv1alpha1.Plan, mr.Annotations[resourcesv1alpha1.Plan]))
	}
	if pause := s.NextPlan.Sub(r.Clock.Now()); pause > 0 && !asked {
		return ctrl.Result{RequeueAfter: pause}, nil
	}
	return r.planNow(ctx, mr, s)
}

// planNow computes and publishes the plan of a set, and sets the time for the next one.
func (r *Reconciler) planNow(ctx context.Context, mr *resourcesv1alpha1.ManagedResource, s *state.Set) (ctrl.Result, error) {
	bounded, cancel := context.WithTimeoutCause(ctx, process.Deadline, errors.New("the time for one plan is over"))
	defer cancel()
	began := r.Clock.Now()
	p, computed, err := r.newPlan(ctx, mr)
	if err != nil {
		return ctrl.Result{}, err
	}
	const otherRights = false
	removesSet := !r.Class.Responsible(mr)
	r.SecretVersions.Use(p.name, SecretNames(mr)) // before the Secrets are read, so that no later change is missed
	if err := r.loadPlan(bounded, p, computed, removesSet, otherRights); err != nil {
		if ctx.Err() == nil { // otherwise the process ends
			r.Events.planFault(mr, s, resourcesv1alpha1.ConditionCannotReadSecret, err.Error())
		}
		return ctrl.Result{}, err
	}
	if removesSet {
		r.Memory.Subscribe(p.name, subscribedKeys(nil, mr.Status.Resources))
	}
	if computed.Problem == "" {
		p.view.Use(bounded, p.name, r.needs(p))
	}
	r.planObjects(bounded, p, computed, removesSet, otherRights)
	if ctx.Err() != nil {
		return ctrl.Result{}, fmt.Errorf("stop: %w", context.Cause(ctx))
	}
	if !plan.ValuesAsked(mr) { // a user who may read ConfigMaps may lack the right to read the objects of the set
		computed = computed.WithoutValues()
	}
	took := r.Clock.Since(began)
	if err := r.publish(ctx, mr, computed); err != nil {
		s.PlanFailures++
		s.NextPlan = r.Clock.Now().Add(pauseAfterPlan(took, s.PlanFailures))
		r.Events.planFault(mr, s, ReasonPlanNotPublished, err.Error())
		return ctrl.Result{}, err
	}
	s.PlanFailures, s.NextPlan = 0, r.Clock.Now().Add(pauseAfterPlan(took, 0))
	return ctrl.Result{RequeueAfter: r.Config.SyncPeriod.Duration}, nil
}

// publish writes the plan into its ConfigMap, unless the ConfigMap contains it already.
func (r *Reconciler) publish(ctx context.Context, mr *resourcesv1alpha1.ManagedResource, computed *plan.Plan) error {
	want, err := computed.ConfigMap(mr)
	if err != nil {
		return err
	}
	found := &corev1.ConfigMap{}
	err = r.SourceLive.Get(ctx, client.ObjectKeyFromObject(want), found)
	missing := apierrors.IsNotFound(err)
	switch {
	case err != nil && !missing:
		return fmt.Errorf("read ConfigMap %s: %w", want.Name, err)
	case !missing && !plan.Ours(found, mr):
		r.Events.planFault(mr, r.Memory.Get(client.ObjectKeyFromObject(mr)), ReasonPlanNotPublished,
			fmt.Sprintf("ConfigMap %q exists and does not hold a plan of this set; remove or rename it", want.Name))
		return nil
	}
	// The controller writes the annotation before the ConfigMap. So if this process dies between the two writes, the next process knows that
	// a ConfigMap may exist.
	if failure := r.recordPlanName(ctx, mr, want.Name); failure != nil {
		return failure
	}
	switch {
	case missing:
		err = r.Source.Create(ctx, want)
	case plan.Published(found, want):
		return nil
	default:
		found.Data, found.BinaryData, found.OwnerReferences = want.Data, nil, want.OwnerReferences
		want = found
		err = r.Source.Update(ctx, want)
	}
	if err != nil {
		return fmt.Errorf("write ConfigMap %s: %w", want.Name, err)
	}
	log.FromContext(ctx).Info("Published plan", "configMap", want.Name)
	r.Events.planned(mr, want, plan.Announcement(computed, want.Name))
	return nil
}

// unpublish removes the plan of a set that is no longer planned. A failure does not stop the reconciliation: it is logged, and the next
// reconciliation tries again.
func (r *Reconciler) unpublish(ctx context.Context, mr *resourcesv1alpha1.ManagedResource) {
	r.unpublishIf(ctx, mr, func(*corev1.ConfigMap) bool { return true })
}

// unpublishForOtherInstance removes the plan that this controller published for a set which now has another class, and which has no
// finalizer of this controller. It keeps a plan of the present generation, because the controller of the other class has published this
// plan.
func (r *Reconciler) unpublishForOtherInstance(ctx context.Context, mr *resourcesv1alpha1.ManagedResource) {
	if r.Class.Responsible(mr) || mr.DeletionTimestamp != nil {
		return
	}
	r.unpublishIf(ctx, mr, func(found *corev1.ConfigMap) bool { return plan.Generation(found) < mr.Generation })
}

func (r *Reconciler) unpublishIf(ctx context.Context, mr *resourcesv1alpha1.ManagedResource, outdated func(*corev1.ConfigMap) bool) {
	if mr.Annotations[resourcesv1alpha1.Planned] == "" {
		return
	}
	found := &corev1.ConfigMap{}
	err := r.SourceLive.Get(ctx, client.ObjectKey{Namespace: mr.Namespace, Name: plan.ConfigMapName(mr.Name)}, found)
	if err == nil && plan.Ours(found, mr) {
		if !outdated(found) {
			return
		}
		err = r.Source.Delete(ctx, found, client.Preconditions{UID: &found.UID, ResourceVersion: &found.ResourceVersion})
	}
	if client.IgnoreNotFound(err) == nil {
		err = r.recordPlanName(ctx, mr, "")
	}
	if err != nil {
		log.FromContext(ctx).Info("Cannot remove plan of a set that is no longer planned", "reason", err.Error())
	}
}

// recordPlanName records in an annotation of the set under which name its plan is published. An empty name removes the annotation.
func (r *Reconciler) recordPlanName(ctx context.Context, mr *resourcesv1alpha1.ManagedResource, name string) error {
	if mr.Annotations[resourcesv1alpha1.Planned] == name {
		return nil
	}
	before := mr.DeepCopy()
	if name == "" {
		delete(mr.Annotations, resourcesv1alpha1.Planned)
	} else {
		metav1.SetMetaDataAnnotation(&mr.ObjectMeta, resourcesv1alpha1.Planned, name)
	}
	// The API server rejects the patch if another client has changed the set meanwhile. Otherwise, a patch that removes the last annotation
	// would remove metadata.annotations as a whole, and with it an annotation that a user adds at the same time.
	return r.patch(ctx, "write annotation "+resourcesv1alpha1.Planned, mr, conflict.MergeFrom(before))
}

const (
	// planPause is the shortest time between two plans of a set, so that a set whose objects change often does not cause too many dry runs.
	planPause = time.Second
	// planShare is the ratio of the pause after a plan to the time that the plan took.
	planShare = 4
	// longestPlanPause limits the pause after slow plans and after failures.
	longestPlanPause = time.Minute
)

// pauseAfterPlan returns the pause after a plan. failures is how many plans in a row could not be published.
func pauseAfterPlan(took time.Duration, failures int) time.Duration {
	pause := max(planPause, planShare*took)
	for ; failures > 1 && pause < longestPlanPause; failures-- {
		pause *= 2
	}
	return min(pause, longestPlanPause)
}
