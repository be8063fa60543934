// Package lifecycle is the main loop of Projects: it gives each Project a namespace, a quota and roles, and releases the namespace when
// the Project is deleted.
//
// All objects are in the garden cluster. The controller watches Projects, the RBAC objects that Projects control, and namespaces. If
// another client changes or deletes a role or a binding, the controller restores it at once. If this happens again and again, the
// controller pauses between the repairs. Caches have Namespaces as metadata and RBAC objects as fingerprints. If an object is not in the
// caches, the controller creates it without a further read. If the object exists nevertheless, or if something differs, the controller
// reads it live and patches it under an optimistic lock. So an outdated cache, or a process that is no longer the leader, never overwrites
// a change that it has not seen, and never adopts a namespace that has lost its labels. Phases are written field by field, since other
// loops write the same status.
//
// All state is in the objects themselves, and the name of a generated namespace follows from the UID of its Project. If the process stops
// at any point, the next one finds which objects are ready and does the rest. The finalizer is added before the first object that has to
// be released, and removed when nothing is left to release.
package lifecycle

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/utils/clock"
	"k8s.io/utils/ptr"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/controller/controllerutil"
	"sigs.k8s.io/controller-runtime/pkg/log"

	corev1beta1 "github.com/espalier-dev/espalier/api/core/v1beta1"
	"github.com/espalier-dev/espalier/internal/config"
	"github.com/espalier-dev/espalier/internal/conflict"
	"github.com/espalier-dev/espalier/internal/project/expiry"
	"github.com/espalier-dev/espalier/internal/project/roles"
	"github.com/espalier-dev/espalier/internal/project/trigger"
)

// Projects are watched; the finalizer and the name of the namespace are patched.
// +kubebuilder:rbac:groups=core.gardener.cloud,resources=projects,verbs=get;list;watch;patch
// Phases are patched.
// +kubebuilder:rbac:groups=core.gardener.cloud,resources=projects/status,verbs=patch
// Namespaces and quotas block the deletion of their Project (blockOwnerDeletion). API servers that check this demand this right.
// +kubebuilder:rbac:groups=core.gardener.cloud,resources=projects/finalizers,verbs=update
// Namespaces are watched, created for Projects, adopted, released and deleted.
// +kubebuilder:rbac:groups="",resources=namespaces,verbs=get;list;watch;create;patch;delete
// ResourceQuotas are kept as configured.
// +kubebuilder:rbac:groups="",resources=resourcequotas,verbs=get;list;watch;create;patch
// ResourceQuotas are never deleted. But API servers may demand this right of a client that makes a Project the owner of an existing quota.
// +kubebuilder:rbac:groups="",resources=resourcequotas,resourceNames=gardener,verbs=delete
// Roles and bindings are kept as the members of Projects require.
// +kubebuilder:rbac:groups=rbac.authorization.k8s.io,resources=clusterroles;clusterrolebindings;rolebindings,verbs=get;list;watch;create;patch;delete
// The roles grant rights that the controller itself does not have.
// +kubebuilder:rbac:groups=rbac.authorization.k8s.io,resources=clusterroles,verbs=escalate;bind
// Events report changes and failures of Projects.
// +kubebuilder:rbac:groups="",resources=events,verbs=create;patch

// Reconciler is the main loop.
type Reconciler struct {
	// Client reads from caches, which need CacheOptions, and writes.
	Client client.Client
	// Live reads from the API server.
	Live client.Reader
	// AnyShoot reports whether a namespace has a Shoot, which blocks the deletion of the Project. It returns an error if that is unknown.
	AnyShoot func(ctx context.Context, namespace string) (bool, error)
	// Config contains the settings of Projects that Gardener has too, and Own the settings that only Espalier has.
	Config config.ProjectController
	Own    config.EspalierProject
	Clock  clock.PassiveClock
	Events *Events
	// Failures counts failed attempts by step; see RegisterMetrics.
	Failures *prometheus.CounterVec

	reconciled reconciledProjects
	shoots     trigger.Trigger // with the Projects that wait for the deletion of their last Shoot
}

// Reconcile reconciles one Project. If the Project is being deleted, it always does its work. Otherwise it does nothing, not even compare
// with the caches, if three conditions are true: this process has finished this generation of the Project and its annotation, no object of
// the Project has changed since, and no membership has ended since.
func (r *Reconciler) Reconcile(ctx context.Context, request ctrl.Request) (ctrl.Result, error) {
	p := &corev1beta1.Project{}
	if err := r.Client.Get(ctx, request.NamespacedName, p); err != nil {
		if apierrors.IsNotFound(err) {
			r.reconciled.projects.Forget(request.Name)
			return ctrl.Result{}, nil
		}
		return ctrl.Result{}, fmt.Errorf("read Project: %w", err)
	}
	if p.DeletionTimestamp != nil {
		r.reconciled.markChanged(request.Name)
		result, fault := r.terminate(ctx, p)
		if fault != nil {
			return ctrl.Result{}, r.report(ctx, p, fault)
		}
		return result, nil
	}
	now := r.Clock.Now()
	if until, ok := r.reconciled.isReconciled(p, now); ok {
		return requeueAt(until, now), nil
	}
	r.reconciled.begin(p.Name)
	next, fault := r.reconcile(ctx, p, now)
	if fault != nil {
		return ctrl.Result{}, r.report(ctx, p, fault)
	}
	r.reconciled.finish(p, next)
	return requeueAt(next, now), nil
}

// requeueAt requests a reconciliation at a time; none if the time is zero.
func requeueAt(at, now time.Time) ctrl.Result {
	if at.IsZero() {
		return ctrl.Result{}
	}
	return ctrl.Result{RequeueAfter: max(at.Sub(now), time.Millisecond)}
}

// reconcile does everything for a Project that is not being deleted. It returns when the next membership ends; zero for never.
func (r *Reconciler) reconcile(ctx context.Context, p *corev1beta1.Project, now time.Time) (time.Time, *failure) {
	unseen := p.Status.ObservedGeneration != p.Generation || p.Status.Phase == "" || p.Status.Phase == corev1beta1.ProjectPending
	if err := r.addFinalizer(ctx, p); err != nil {
		return time.Time{}, failureWithoutEvent(stepFinalizer, err)
	}
	if p.Status.Phase == "" {
		if err := r.setPhase(ctx, p, corev1beta1.ProjectPending); err != nil {
			return time.Time{}, failureWithoutEvent(stepPhase, err)
		}
	}
	members, next, problems := expiry.Members(p, r.Own.MembershipExpiry, now)
	if r.reconciled.recordProblems(p.Name, problems) {
		r.Events.expiryProblems(p, problems)
	}
	namespace := namespaceName(p)
	desired, refused := roles.Desired(p, members, namespace)
	r.reconciled.recordExtensionRoles(p.Name, desired)
	if fault := r.reconcileNamespace(ctx, p, namespace, unseen); fault != nil {
		// A member who lost a role must lose its rights even if another step fails.
		fault.err = errors.Join(fault.err, r.revoke(ctx, p, namespace, desired))
		return time.Time{}, fault
	}
	// Rights that no member has any more are removed even if others cannot be granted.
	changed, err := r.ensureRoles(ctx, desired, refused)
	fault := newFailure(stepRoles, namespace, err)
	removed, err := r.removeStaleRoles(ctx, p, namespace, desired)
	if fault == nil {
		fault = newFailure(stepExtensionRoles, namespace, err)
	}
	if removed {
		changed = append(changed, unneededExtensionRoles)
	}
	if !unseen {
		r.recordRepairs(p, changed, now)
	}
	if fault != nil {
		return time.Time{}, fault
	}
	return next, newFailure(stepPhase, namespace, r.setPhase(ctx, p, corev1beta1.ProjectReady))
}

// recordRepairs records the objects that were restored although the Project had not changed.
func (r *Reconciler) recordRepairs(p *corev1beta1.Project, about []string, now time.Time) {
	for _, each := range about {
		if pause := r.reconciled.recordRepair(p.Name, each, now); pause > 0 {
			r.Events.repairsDelayed(p, each, pause)
		}
	}
}

// reconcileNamespace ensures the namespace of a Project, the name of the namespace in the spec of the Project, and the quota in the
// namespace.
func (r *Reconciler) reconcileNamespace(ctx context.Context, p *corev1beta1.Project, namespace string, unseen bool) *failure {
	written, err := r.ensureNamespace(ctx, p, namespace)
	if err != nil {
		return newFailure(stepNamespace, namespace, err)
	}
	if unseen || written {
		r.Events.reconciled(p, namespace)
	}
	if ptr.Deref(p.Spec.Namespace, "") == "" {
		if err := r.setNamespace(ctx, p, namespace); err != nil {
			return newFailure(stepNamespace, namespace, err)
		}
	}
	return newFailure(stepQuota, namespace, r.ensureQuota(ctx, p, namespace))
}

// terminate releases the namespace of a Project that is being deleted, and removes the finalizer of the Project.
func (r *Reconciler) terminate(ctx context.Context, p *corev1beta1.Project) (ctrl.Result, *failure) {
	if !controllerutil.ContainsFinalizer(p, corev1beta1.GardenerFinalizer) {
		return ctrl.Result{}, nil
	}
	name := ptr.Deref(p.Spec.Namespace, "")
	if name == "" {
		return ctrl.Result{}, failureWithoutEvent(stepFinalizer, r.removeFinalizer(ctx, p))
	}
	namespace, due, err := r.readAndDecideRelease(ctx, p, name)
	if err != nil {
		return ctrl.Result{}, releaseFailed(name, err)
	}
	// Shoots in a namespace that is not the Project's do not matter.
	if due == gone || endsWith(p, &namespace.ObjectMeta) {
		used, unsure := r.AnyShoot(ctx, name)
		if unsure != nil { // the server of Shoots is not available, which is no failure of the Project
			fault := releaseFailed(name, fmt.Errorf("look for Shoots: %w", unsure))
			fault.keepsPhase = true
			return ctrl.Result{}, fault
		}
		if used {
			r.Events.notEmpty(p, name)
			return ctrl.Result{RequeueAfter: shootPause}, failureWithoutEvent(stepPhase, r.setPhase(ctx, p, corev1beta1.ProjectTerminating))
		}
	}
	if due != wait { // orphans were removed before the deletion began, and are removed again before the finalizer is
		if err = r.removeOrphans(ctx, p, name, due); err != nil {
			return ctrl.Result{}, releaseFailed(name, err)
		}
	}
	released, err := r.releaseNamespace(ctx, p, namespace, due)
	if err != nil {
		return ctrl.Result{}, releaseFailed(name, err)
	}
	if !released {
		if p.Status.Phase != corev1beta1.ProjectTerminating {
			r.Events.marked(p, name)
		}
		return ctrl.Result{RequeueAfter: namespacePause}, failureWithoutEvent(stepPhase, r.setPhase(ctx, p, corev1beta1.ProjectTerminating))
	}
	return ctrl.Result{}, failureWithoutEvent(stepFinalizer, r.removeFinalizer(ctx, p))
}

// report counts a failure in the metric, and returns its error. If the failure has a reason, report also creates an Event and sets the
// phase to Failed; some failures keep the phase. It publishes no conflict: the next attempt follows at once and reads the change.
func (r *Reconciler) report(ctx context.Context, p *corev1beta1.Project, fault *failure) error {
	if ctx.Err() != nil || conflict.Only(fault.err) {
		return fault.err
	}
	r.Failures.WithLabelValues(string(fault.step)).Inc()
	if fault.reason == "" {
		return fault.err
	}
	r.Events.failed(p, fault)
	if !fault.keepsPhase {
		if err := r.setPhase(ctx, p, corev1beta1.ProjectFailed); err != nil {
			log.FromContext(ctx).Error(err, "Could not set the phase of a Project to Failed")
		}
	}
	return fault.err
}
