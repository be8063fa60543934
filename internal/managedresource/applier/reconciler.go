// Package applier is the ManagedResource controller: it keeps the objects of ManagedResources, called sets here, in the state that their
// Secrets describe.
//
// In the source cluster, it watches ManagedResources and the metadata of Secrets, and, if configured, of Namespaces and ServiceAccounts.
// In the target cluster, it watches autoscalers. For every kind that sets contain, it also watches the objects with the managed-by label:
// whole objects if the health of the kind depends on more than metadata, otherwise metadata. It reads a Secret when the version of the
// Secret changes, and an object when another client has written to the object. It writes objects to the target. To the source, it writes
// finalizers, annotations and the status of ManagedResources, ConfigMaps with plans, and Events.
//
// It writes the result of an apply together with the health of the set. For this, it waits a moment until the health is known: see
// Reconciler.resultStatus.
//
// If the process dies during an apply, the next process finds in the status every object that may exist, because the controller lists all
// objects there before it writes the first of them. The next process also finds that the last apply was not completed, because only the
// end of an apply records the checksum. It then writes all objects of the set again. This does not change objects that are in their
// desired state.
package applier

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/controller/controllerutil"
	"sigs.k8s.io/controller-runtime/pkg/log"

	corev1beta1 "github.com/espalier-dev/espalier/api/core/v1beta1"
	resourcesv1alpha1 "github.com/espalier-dev/espalier/api/resources/v1alpha1"
	"github.com/espalier-dev/espalier/internal/apply/inventory"
	"github.com/espalier-dev/espalier/internal/apply/observe"
	"github.com/espalier-dev/espalier/internal/config"
	"github.com/espalier-dev/espalier/internal/conflict"
	"github.com/espalier-dev/espalier/internal/managedresource/desired"
	"github.com/espalier-dev/espalier/internal/managedresource/engine"
	"github.com/espalier-dev/espalier/internal/managedresource/health"
	"github.com/espalier-dev/espalier/internal/managedresource/identity"
	"github.com/espalier-dev/espalier/internal/managedresource/ownership"
	"github.com/espalier-dev/espalier/internal/managedresource/plan"
	"github.com/espalier-dev/espalier/internal/managedresource/prune"
	"github.com/espalier-dev/espalier/internal/managedresource/secretversions"
	"github.com/espalier-dev/espalier/internal/managedresource/state"
	"github.com/espalier-dev/espalier/internal/process"
)

// ManagedResources are watched; their finalizer, annotations and status are patched.
// +kubebuilder:rbac:groups=resources.gardener.cloud,resources=managedresources,verbs=get;list;watch;patch,roleName=espalier-managedresource-controller-source
// +kubebuilder:rbac:groups=resources.gardener.cloud,resources=managedresources/status,verbs=patch,roleName=espalier-managedresource-controller-source
// Secrets of sets are read; the metadata of all Secrets is watched.
// +kubebuilder:rbac:groups="",resources=secrets,verbs=get;list;watch,roleName=espalier-managedresource-controller-source
// The UID of Namespace `kube-system` says whether source and target are the same cluster.
// +kubebuilder:rbac:groups="",resources=namespaces,resourceNames=kube-system,verbs=get,roleName=espalier-managedresource-controller-source
// +kubebuilder:rbac:groups="",resources=namespaces,resourceNames=kube-system,verbs=get,roleName=espalier-managedresource-controller-target-base
// Events report repairs and faults of sets.
// +kubebuilder:rbac:groups=events.k8s.io,resources=events,verbs=create;patch,roleName=espalier-managedresource-controller-source
// The ConfigMap is read if `controllers.clusterID` asks for it.
// +kubebuilder:rbac:groups="",resources=configmaps,resourceNames=cluster-identity,verbs=get,namespace=kube-system,roleName=espalier-managedresource-controller-cluster-identity
// Of several replicas, only the holder of the lease works.
// +kubebuilder:rbac:groups="",resources=events,verbs=create;patch,namespace=espalier-system,roleName=espalier-managedresource-controller-lease
// +kubebuilder:rbac:groups=coordination.k8s.io,resources=leases,verbs=create,namespace=espalier-system,roleName=espalier-managedresource-controller-lease
// +kubebuilder:rbac:groups=coordination.k8s.io,resources=leases,resourceNames=gardener-resource-manager,verbs=get;update,namespace=espalier-system,roleName=espalier-managedresource-controller-lease
// Autoscalers say which replicas and requests of workloads the controller does not restore.
// +kubebuilder:rbac:groups=autoscaling,resources=horizontalpodautoscalers,verbs=list;watch,roleName=espalier-managedresource-controller-target-base
// Events of a Service say why its deletion does not finish.
// +kubebuilder:rbac:groups="",resources=events,verbs=list,roleName=espalier-managedresource-controller-target-base
// The definition of a custom kind says where its objects have the number of replicas.
// +kubebuilder:rbac:groups=apiextensions.k8s.io,resources=customresourcedefinitions,verbs=get,roleName=espalier-managedresource-controller-target-base
// Hvpas are autoscalers, too.
// +kubebuilder:rbac:groups=autoscaling.k8s.io,resources=hvpas,verbs=list;watch,roleName=espalier-managedresource-controller-target-base

// Reconciler applies ManagedResources. Its fields are set once, before start.
type Reconciler struct {
	Planner
	Health
	// SecretVersions watches the Secrets of the sets. Planner.Versions is the same.
	SecretVersions *secretversions.Tracker
	// TargetAs reads Events of the target, which no cache contains, with the rights of a user.
	TargetAs func(user string) (client.Reader, error)
	Events   *Events
	Metrics  *Metrics
	// Jitter spreads audits: it returns a number from 0 up to 1.
	Jitter func() float64
}

// Settings are the settings of the controller that do not change while it runs.
type Settings struct {
	// Class is the class of the sets that the controller processes. ClusterID, if not empty, is part of the origin annotation of every object.
	Class     Class
	ClusterID string
	// Config and Own are the sections of a defaulted configuration: the settings that Gardener has, and others.
	Config config.ManagedResourceController
	Own    config.EspalierManagedResource
	// Identity chooses the ServiceAccounts with whose rights sets are applied.
	Identity identity.Rules
	// OwnNamespace is the namespace of the process.
	OwnNamespace string
	Limits       ownership.Limits
	// GarbageCollector is true if the garbage collector deletes garbage-collectable ConfigMaps and Secrets.
	GarbageCollector bool
	// DeletionPoll is how often pending deletions are checked if there is no event.
	DeletionPoll time.Duration
}

// Health contains the functions of the health controller that this controller calls.
type Health struct {
	// Registered reports whether a kind is one of Kubernetes' own. For such kinds, Own.Kstatus has no effect.
	Registered func(schema.GroupVersionKind) bool
	// Judge returns all conditions of an applied set, including the new conditions of health and progress. next is nil if a request is needed
	// to determine the health or the progress. A request that only shows whether the ServiceAccount of the set may know the result does not
	// count. If next is nil, a call of Concluded makes the health controller write the two conditions.
	//
	// early is true, and next is nil, if last is false and the two conditions are about to change: a watch has not seen a write of this
	// process yet, or the controller of a workload has not processed the workload yet.
	Judge func(ctx context.Context, name types.NamespacedName, mr *resourcesv1alpha1.ManagedResource, last bool) (
		next []corev1beta1.Condition, early bool,
	)
	// Concluded is called in two cases: when the controller has applied a set, so that the health of the set can be determined, and when it
	// has created a deleted object of the set again.
	Concluded func(types.NamespacedName)
}

const (
	// settlePause is the time after which a pass is repeated if its input changed while it ran.
	settlePause = 10 * time.Millisecond
	// resultPause is the first pause before the health of a set with a postponed result is determined again. Each further pause is as long as
	// the time since the result was first postponed, so that this time doubles. After resultTimeout, the result is written as it is.
	resultPause   = 50 * time.Millisecond
	resultTimeout = 300 * time.Millisecond
	// resultPriority is the priority in the work queue of a set with a postponed result. Other sets have the priority 0 or less. The set goes
	// first because most of its work is done. It keeps the priority until it is at rest.
	resultPriority = 1
)

// Reconcile implements reconcile.Reconciler.
func (r *Reconciler) Reconcile(ctx context.Context, request ctrl.Request) (ctrl.Result, error) {
	if r.isInSync(ctx, request.NamespacedName) {
		return ctrl.Result{RequeueAfter: r.Config.SyncPeriod.Duration}, nil
	}
	mr, err := r.read(ctx, request.NamespacedName)
	if apierrors.IsNotFound(err) {
		r.releaseSet(request.NamespacedName)
		return ctrl.Result{}, nil
	}
	if err != nil {
		return ctrl.Result{}, err
	}
	if r.Memory.Ended(mr) { // otherwise all its objects would be read once more
		r.releaseSet(request.NamespacedName)
		return ctrl.Result{}, nil
	}
	next := r.Class.next(mr)
	log.FromContext(ctx).V(1).Info("Reconciling", "step", next)
	switch next {
	case stepIgnore:
		r.Watcher.Release(request.NamespacedName)
		p := r.newPass(ctx, mr)
		p.set.Invalidate()
		p.set.Announced = ""
		r.Memory.MarkInProgress(p.name)
		r.unpublish(ctx, mr)
		return ctrl.Result{}, r.report(ctx, p, ignoredVerdicts()...)
	case stepPlan:
		if err := r.observeUnlessRefused(ctx, mr); err != nil {
			return ctrl.Result{}, err
		}
		return r.planSet(ctx, mr)
	case stepRemove:
		return r.removeSet(ctx, mr)
	case stepApply:
		requested, err := r.takeOperation(ctx, mr)
		if err != nil {
			return ctrl.Result{}, err
		}
		if requested {
			r.Memory.Get(request.NamespacedName).RerunOwed = true
		}
		return r.applySet(ctx, mr)
	case stepNone:
		r.unpublishForOtherInstance(ctx, mr)
		r.releaseSet(request.NamespacedName)
	case stepWait:
		return ctrl.Result{}, r.observeUnlessRefused(ctx, mr)
	}
	return ctrl.Result{}, nil
}

// observeUnlessRefused is observeOnly for a set that may be refused. Then it stops the watches that have the rights of the set's
// ServiceAccount.
func (r *Reconciler) observeUnlessRefused(ctx context.Context, mr *resourcesv1alpha1.ManagedResource) error {
	p := r.newPass(ctx, mr)
	if r.Identity.Watcher(mr) != "" {
		refusal, err := r.refusal(ctx, mr)
		if err != nil {
			return err
		}
		if refusal != "" {
			r.stopWatchesOfAccount(p)
			return nil
		}
	}
	r.observeOnly(ctx, p)
	return nil
}

// observeOnly starts the watches of a set that this process must not apply now and that was applied before. It also requests that the
// health controller judges the set. It does not repeat this work if it was done before. It does nothing for other sets, for sets that are
// being deleted, and for sets of another class.
func (r *Reconciler) observeOnly(ctx context.Context, p *pass) {
	mr := p.mr
	if !corev1beta1.IsTrue(mr.Status.Conditions, resourcesv1alpha1.ResourcesApplied) && !isComplete(mr.Status.Conditions) ||
		mr.DeletionTimestamp != nil || !r.Class.Responsible(mr) {
		return
	}
	if _, concluded := r.Memory.Concluded(p.name); concluded && p.view.IsUsedBy(p.name) {
		return
	}
	bounded, cancel := r.limit(ctx)
	defer cancel()
	p.set.Kstatus = health.Kstatus(mr, *r.Own.Kstatus)
	r.Memory.Subscribe(p.name, subscribedKeys(p.set.Content.Items, mr.Status.Resources))
	p.view.Use(bounded, p.name, r.needs(p))
	r.requestJudgement(p, false)
}

// releaseSet stops the watches of a set, and removes the state of the set from memory, except for the data that shows that a cache is
// behind. The set does not exist, the controller has removed its last finalizer, or a controller of another class processes it.
func (r *Reconciler) releaseSet(name types.NamespacedName) {
	r.Watcher.Release(name)
	r.SecretVersions.Release(name)
	r.Memory.ForgetContent(name)
	r.Metrics.updateObjects(name, counts{})
}

// read returns the set from the cache. If the cache is older than the last write of this process, it reads the set live: an older status
// would list the wrong objects.
func (r *Reconciler) read(ctx context.Context, name types.NamespacedName) (*resourcesv1alpha1.ManagedResource, error) {
	mr := &resourcesv1alpha1.ManagedResource{}
	err := r.Source.Get(ctx, name, mr)
	if apierrors.IsNotFound(err) {
		r.Memory.Forget(name)
	}
	if err != nil {
		return nil, fmt.Errorf("read ManagedResource: %w", err)
	}
	if !observe.Older(mr.ResourceVersion, r.Memory.Version(name)) {
		return mr, nil
	}
	mr = &resourcesv1alpha1.ManagedResource{}
	if err := r.SourceLive.Get(ctx, name, mr); err != nil {
		return nil, fmt.Errorf("read ManagedResource: %w", err)
	}
	if observe.Older(mr.ResourceVersion, r.Memory.Version(name)) {
		// The API server returned an older version than this process wrote: the source was restored from a backup.
		log.FromContext(ctx).Info("The set was restored to an earlier version", "resourceVersion", mr.ResourceVersion)
		r.Memory.Forget(name)
	}
	return mr, nil
}

// takeOperation removes the annotation that requests a reconciliation, and reports whether the set had the annotation. If so, the
// reconciliation reads all objects of the set. takeOperation fails with a conflict if another client has changed the set meanwhile.
func (r *Reconciler) takeOperation(ctx context.Context, mr *resourcesv1alpha1.ManagedResource) (bool, error) {
	if mr.Annotations[resourcesv1alpha1.GardenerOperation] != resourcesv1alpha1.OperationReconcile {
		return false, nil
	}
	before := mr.DeepCopy()
	delete(mr.Annotations, resourcesv1alpha1.GardenerOperation)
	// The API server rejects the patch if another client has changed the set meanwhile. Otherwise, a patch that removes the last annotation
	// would remove metadata.annotations as a whole, and with it an annotation that a user adds at the same time.
	if err := r.patch(ctx, "remove annotation "+resourcesv1alpha1.GardenerOperation, mr, conflict.MergeFrom(before)); err != nil {
		return false, err
	}
	r.Memory.Get(client.ObjectKeyFromObject(mr)).AuditOwed = true
	return true, nil
}

// applySet applies a set: it deletes and releases the objects that left the set, and then creates and updates the objects of the set. If
// the set is refused, not approved, or waits for other sets, applySet does not apply the present content.
func (r *Reconciler) applySet(ctx context.Context, mr *resourcesv1alpha1.ManagedResource) (ctrl.Result, error) {
	_, needsApproval := mr.Annotations[resourcesv1alpha1.Approved]
	if !needsApproval {
		r.unpublish(ctx, mr)
	}
	refusal, err := r.refusal(ctx, mr)
	if refusal = cmp.Or(refusal, r.malformed(mr)); err != nil || refusal != "" {
		return r.refuseSet(ctx, mr, refusal, err)
	}
	if err := r.addFinalizer(ctx, mr); err != nil {
		return ctrl.Result{}, err
	}
	p := r.newPass(ctx, mr)
	if r.auditDue(p.set) {
		p.set.AuditOwed = true
	}
	if needsApproval && r.awaitsApproval(p) {
		return r.planUnapproved(ctx, p)
	}
	bounded, cancel := r.limit(ctx)
	defer cancel()
	if err := r.load(bounded, p); err != nil {
		return ctrl.Result{}, r.unreadable(ctx, p, err)
	}
	if needsApproval && unapproved(mr, p.set.Content.Checksum) != "" {
		return r.planUnapproved(ctx, p)
	}
	r.unpublish(ctx, mr)
	if unmet := r.pendingDependency(ctx, p); unmet != "" {
		return r.awaitDependencies(ctx, p, unmet)
	}
	p.set.Former = nil // from now on, the present content may be in the target
	if err := r.brake(bounded, p); err != nil {
		return ctrl.Result{}, r.fail(ctx, p, resourcesv1alpha1.ConditionApplyFailed, err.Error(), err)
	}
	if err := r.announce(ctx, p); err != nil {
		return ctrl.Result{}, err
	}
	if kstatus := health.Kstatus(mr, *r.Own.Kstatus); !p.set.Settled || !p.set.Watched || p.set.Kstatus != kstatus {
		p.set.Kstatus = kstatus
		p.view.Use(bounded, p.name, r.needs(p))
	}
	if !p.set.Pruned {
		if result := r.prune(bounded, p); len(result.Pending) > 0 {
			return r.reportPending(ctx, p, result)
		}
		if err := r.pruner(p).Release(ctx, p.set.Content.Released, p.before); err != nil {
			return ctrl.Result{}, r.fail(ctx, p, resourcesv1alpha1.ReleaseOfOrphanedResourcesFailed, err.Error(), err)
		}
	}
	return r.conclude(ctx, p, r.apply(bounded, p))
}

// unreadable reports that the Secrets of a set cannot be read, unless the process ends.
func (r *Reconciler) unreadable(ctx context.Context, p *pass, err error) error {
	if ctx.Err() != nil {
		return err
	}
	return r.fail(ctx, p, resourcesv1alpha1.ConditionCannotReadSecret, err.Error(), err)
}

// awaitsApproval reports whether the Secrets have not changed since they were last read, and the user has not approved their content. In
// this case, the controller need not read the Secrets after an event of an object, before the next plan is due.
func (r *Reconciler) awaitsApproval(p *pass) bool {
	content := p.set.Content
	return content.Generation == p.mr.Generation && r.reader(p.user).IsCurrent(p.mr, content.Versions) &&
		unapproved(p.mr, content.Checksum) != ""
}

// limit returns a context with the deadline for the reads, deletions and writes of one pass.
func (r *Reconciler) limit(ctx context.Context) (context.Context, context.CancelFunc) {
	over := errors.New("the time for one reconciliation is over")
	return context.WithTimeoutCause(ctx, min(r.Config.SyncPeriod.Duration, process.Deadline), over)
}

// addFinalizer adds the finalizer of the class to the set and records the cluster ID. It fails with a conflict if another client has
// changed the set meanwhile.
func (r *Reconciler) addFinalizer(ctx context.Context, mr *resourcesv1alpha1.ManagedResource) error {
	before := mr.DeepCopy()
	added := controllerutil.AddFinalizer(mr, r.Class.Finalizer())
	recorded := ownership.RecordClusterID(mr, r.ClusterID, added && len(mr.Status.Resources) == 0)
	if !added && !recorded {
		return nil
	}
	return r.patch(ctx, "add finalizer", mr, conflict.MergeFrom(before))
}

// patch sends a patch of a set, but not of its status, and records the write. Its errors begin with purpose.
func (r *Reconciler) patch(ctx context.Context, purpose string, mr *resourcesv1alpha1.ManagedResource, change client.Patch) error {
	if err := r.Source.Patch(ctx, mr, change); err != nil {
		return fmt.Errorf("%s: %w", purpose, err)
	}
	r.Memory.RecordWrite(mr)
	return nil
}

// recordOnlyClusterID records in the annotations of the set that the origin annotations of all its objects contain the present cluster ID,
// and no former one.
func (r *Reconciler) recordOnlyClusterID(ctx context.Context, p *pass) error {
	if len(p.set.Content.Faults) > 0 || ownership.HasOnlyClusterID(p.mr, r.ClusterID) {
		return nil
	}
	next := p.mr.DeepCopy()
	ownership.SetClusterIDs(next, r.ClusterID)
	if err := r.patch(ctx, "record the cluster ID", next, conflict.MergeFrom(p.mr)); err != nil {
		return err
	}
	p.mr = next
	return nil
}

// auditDue reports whether all objects of a set must be read, and sets the time for the next audit. The first audit happens after one
// period on average, since a set begins with reads or writes anyway.
func (r *Reconciler) auditDue(s *state.Set) bool {
	period := r.Own.AuditPeriod.Duration
	if period <= 0 {
		return false
	}
	now := r.Clock.Now()
	if !s.NextAudit.IsZero() && now.Before(s.NextAudit) {
		return false
	}
	due := !s.NextAudit.IsZero()
	s.NextAudit = now.Add(period/2 + time.Duration(float64(period)*r.Jitter()))
	return due
}

// prune deletes the obsolete objects: the objects in the status that the set no longer contains. It deletes nothing while pruning is
// suspended, or while documents of the set cannot be read. It keeps an obsolete object for now if a new object of the set resembles the
// obsolete one, and the API server may refuse the new object: see withhold.
func (r *Reconciler) prune(ctx context.Context, p *pass) prune.Result {
	if prune.KeepAll(p.mr, false, p.set.Content.Faults) != "" || p.set.Settled || p.set.Suspension != nil {
		return prune.Result{} // the status of a settled set lists exactly its objects
	}
	obsolete := p.obsolete()
	if len(obsolete) == 0 {
		p.set.Leaving = state.Leaving{}
		return prune.Result{}
	}
	if p.set.Deletion == nil {
		p.set.Withheld = r.withhold(ctx, p, obsolete)
	}
	leaving := p.set.Withheld.Without(obsolete)
	if len(leaving) == 0 {
		return prune.Result{}
	}
	result := r.remove(ctx, p, leaving)
	if len(result.Pending) == 0 { // they stay obsolete until the status without them is written
		p.set.Deletion = nil
	}
	return result
}

// withhold finds out by dry runs whether the API server accepts the new objects of the set. It returns the obsolete objects that must stay
// until the new objects which resemble them are accepted. It sends no request if no new object resembles an obsolete one.
func (r *Reconciler) withhold(ctx context.Context, p *pass, obsolete []resourcesv1alpha1.ObjectReference) prune.Withheld {
	var tasks []engine.Task
	resembles := false
	for _, t := range r.comparisons(p) {
		if t.Known.Confirmed && t.Known.Hash == t.Hash || t.Previous != nil && t.Presence == observe.Present {
			continue // the object exists, so it is not new
		}
		if t.Presence == observe.Absent {
			t.Action = engine.Create
		}
		tasks = append(tasks, t)
		resembles = resembles || slices.ContainsFunc(obsolete, func(ref resourcesv1alpha1.ObjectReference) bool {
			return prune.Resemble(inventory.RefKey(ref), t.Key)
		})
	}
	if !resembles {
		return prune.Withheld{}
	}
	planner := &engine.Planner{Engine: r.engine(p), Prunes: true}
	planned := planner.Plan(ctx, tasks)
	plan.Reconsider(planned)
	return prune.Withhold(obsolete, planned)
}

// remove deletes objects, and reports in Events the objects that stay although the user may expect their deletion.
func (r *Reconciler) remove(ctx context.Context, p *pass, refs []resourcesv1alpha1.ObjectReference) prune.Result {
	if p.set.Deletion == nil {
		p.set.Deletion = prune.NewProgress(false, p.set.NeverWritten)
	}
	deletion := &prune.Deletion{
		Pruner: r.pruner(p), Progress: p.set.Deletion, Watcher: p.view, Now: p.now, Poll: r.DeletionPoll,
		WaveTimeout: r.Own.DeletionWaveTimeout.Duration,
	}
	result := deletion.Delete(ctx, refs)
	for _, each := range result.Kept {
		r.Events.deletionRefused(p.mr, each.Ref, each.Reason)
	}
	return result
}

func (r *Planner) pruner(p *pass) *prune.Pruner {
	return &prune.Pruner{
		Target: p.target, Sets: r.SourceLive, Owner: p.owner, GarbageCollector: r.GarbageCollector, Parallel: *r.Own.MaxConcurrentRequests,
	}
}

// postponeRemoval checks whether the deletion of all objects of a set is suspended, or waits for sets that depend on this set. If so, it
// reports this in the status, and waits is true. waits is also true if it is unknown whether the deletion is suspended. waits is false if
// the deletion may begin or has begun. Requests about the objects use the context bounded.
func (r *Reconciler) postponeRemoval(ctx, bounded context.Context, p *pass) (result ctrl.Result, waits bool, err error) {
	if p.set.Deletion.OfWholeSet() {
		return ctrl.Result{}, false, nil
	}
	s, err := r.removalSuspension(bounded, p)
	if err != nil {
		_, reported := r.refuseDeletion(ctx, p, err.Error(), nil)
		return ctrl.Result{}, true, errors.Join(err, reported)
	}
	if s != nil {
		result, err = r.suspendRemoval(ctx, p, s)
		return result, true, err
	}
	wait, dependent := r.awaitDependents(ctx, p.mr)
	if wait <= 0 {
		return ctrl.Result{}, false, nil
	}
	message := fmt.Sprintf("waits for the deletion of ManagedResource %q, which depends on this one", dependent)
	return ctrl.Result{RequeueAfter: wait}, true,
		r.report(ctx, p, applied(corev1beta1.ConditionProgressing, resourcesv1alpha1.ConditionDeletionPending, message))
}

// removeSet deletes the set's objects, unless they are kept, and then removes the finalizer of the class from the set.
func (r *Reconciler) removeSet(ctx context.Context, mr *resourcesv1alpha1.ManagedResource) (ctrl.Result, error) {
	r.unpublish(ctx, mr)
	p := r.newPass(ctx, mr)
	bounded, cancel := r.limit(ctx)
	defer cancel()
	keep := prune.KeepAll(mr, true, nil) != ""
	if !keep { // before the first request with the rights of the set
		if refusal, err := r.accountRefusal(ctx, mr); err != nil || refusal != "" {
			return r.refuseDeletion(ctx, p, refusal, err)
		}
	}
	if result, waits, err := r.postponeRemoval(ctx, bounded, p); waits || err != nil {
		return result, err
	}
	p.set.BeginDeletion()
	if err := r.report(ctx, p, deletionVerdicts(mr.Status.Conditions, keep)...); err != nil {
		return ctrl.Result{}, err
	}
	if !keep {
		p.set.Content, p.set.Objects, p.set.Loaded = &desired.Content{}, nil, false
		r.Memory.Subscribe(p.name, subscribedKeys(nil, mr.Status.Resources))
		p.view.Use(bounded, p.name, r.needs(p))
		if result := r.remove(bounded, p, mr.Status.Resources); len(result.Pending) > 0 {
			return r.reportPending(ctx, p, result)
		}
	}
	before := p.mr.DeepCopy()
	if controllerutil.RemoveFinalizer(p.mr, r.Class.Finalizer()) {
		delete(p.mr.Annotations, resourcesv1alpha1.ClusterIDs) // the next controller may have another ID
		if r.Own.DeletionLimit != nil {
			delete(p.mr.Annotations, resourcesv1alpha1.ConfirmDeletion)
		}
		if err := r.patch(ctx, "remove finalizer", p.mr, conflict.MergeFrom(before)); client.IgnoreNotFound(err) != nil {
			return ctrl.Result{}, err
		}
		if p.mr.DeletionTimestamp != nil && len(p.mr.Finalizers) == 0 { // the response contains the former version of the set
			p.set.EndedUID = p.mr.UID
		}
	}
	r.releaseSet(p.name)
	return ctrl.Result{}, nil
}
