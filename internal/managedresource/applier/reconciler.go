// Package applier keeps the objects of ManagedResources as their Secrets say: the ManagedResource controller.
//
// It watches, in the source cluster, ManagedResources and the metadata of Secrets; in the target cluster, the metadata
// of every kind that sets contain, as far as objects carry the managed-by label, and autoscalers. It reads Secrets
// when their version changes and single objects when somebody wrote to them. It writes objects into the target, and
// finalizers, the operation annotation and the status of ManagedResources into the source.
//
// If the process dies half-way, the next one finds in the status every object that may exist, because they were
// written there before the first of them was touched, and that the last apply was not completed, because only its end
// records the checksum. It then writes all objects of that set again, which changes nothing where they are right.
package applier

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/utils/clock"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/controller/controllerutil"
	"sigs.k8s.io/controller-runtime/pkg/log"

	corev1beta1 "github.com/espalier-dev/espalier/api/core/v1beta1"
	resourcesv1alpha1 "github.com/espalier-dev/espalier/api/resources/v1alpha1"
	"github.com/espalier-dev/espalier/internal/apply"
	"github.com/espalier-dev/espalier/internal/apply/observe"
	"github.com/espalier-dev/espalier/internal/managedresource/health"
	"github.com/espalier-dev/espalier/internal/managedresource/secretversions"
)

// +kubebuilder:rbac:groups=resources.gardener.cloud,resources=managedresources,verbs=get;list;watch;patch,roleName=espalier-managedresource-controller-source
// +kubebuilder:rbac:groups=resources.gardener.cloud,resources=managedresources/status,verbs=patch,roleName=espalier-managedresource-controller-source
// +kubebuilder:rbac:groups="",resources=secrets,verbs=get;list;watch,roleName=espalier-managedresource-controller-source
// +kubebuilder:rbac:groups="",resources=namespaces,resourceNames=kube-system,verbs=get,roleName=espalier-managedresource-controller-source
// +kubebuilder:rbac:groups="",resources=namespaces,resourceNames=kube-system,verbs=get,roleName=espalier-managedresource-controller-target-base
// +kubebuilder:rbac:groups=events.k8s.io,resources=events,verbs=create;patch,roleName=espalier-managedresource-controller-source
// +kubebuilder:rbac:groups="",resources=configmaps,resourceNames=cluster-identity,verbs=get,namespace=kube-system,roleName=espalier-managedresource-controller-cluster-identity
// +kubebuilder:rbac:groups="",resources=events,verbs=create;patch,namespace=espalier-system,roleName=espalier-managedresource-controller-lease
// +kubebuilder:rbac:groups=coordination.k8s.io,resources=leases,verbs=create,namespace=espalier-system,roleName=espalier-managedresource-controller-lease
// +kubebuilder:rbac:groups=coordination.k8s.io,resources=leases,resourceNames=gardener-resource-manager,verbs=get;update,namespace=espalier-system,roleName=espalier-managedresource-controller-lease
// +kubebuilder:rbac:groups=autoscaling,resources=horizontalpodautoscalers,verbs=list;watch,roleName=espalier-managedresource-controller-target-base
// +kubebuilder:rbac:groups="",resources=events,verbs=list,roleName=espalier-managedresource-controller-target-base
// +kubebuilder:rbac:groups=autoscaling.k8s.io,resources=hvpas,verbs=list;watch,roleName=espalier-managedresource-controller-target-base

// Reconciler brings one ManagedResource after the other to its desired state. Its fields are set once, before start.
type Reconciler struct {
	// Source reads the source cluster from caches and writes to it; SourceLive reads Secrets, which no cache holds.
	Source     client.Client
	SourceLive client.Reader
	// SecretVersions tells which versions the Secrets of the sets have.
	SecretVersions *secretversions.Tracker
	Target         *apply.Target
	// TargetLive reads Events of the target, which no cache holds.
	TargetLive client.Reader
	Watcher    *observe.Watcher
	// Autoscalers know which replicas and resources others decide about.
	Autoscalers *observe.Autoscalers
	Events      *Events
	Metrics     *Metrics
	Clock       clock.WithTicker

	// Class is the class of sets to serve; ClusterID, if not empty, goes into every origin.
	Class     Class
	ClusterID string
	// ManagedBy is the value of the managed-by label.
	ManagedBy string
	// SameCluster reports whether source and target are one cluster, or may be; OwnNamespace is where the process runs.
	SameCluster  func(context.Context) bool
	OwnNamespace string
	Limits       Limits
	// GarbageCollector tells that garbage-collectable ConfigMaps and Secrets are somebody else's to delete.
	GarbageCollector bool
	// SyncPeriod is how often a set is compared with what the watches know, which costs no request.
	SyncPeriod time.Duration
	// AlwaysUpdate writes every object in each SyncPeriod.
	AlwaysUpdate bool
	// AuditPeriod is how often, on average, every object of a set is read; zero never.
	AuditPeriod time.Duration
	// Jitter spreads audits: it returns a number from 0 up to 1.
	Jitter func() float64
	// DeletionPoll is how often pending deletions are looked at when no event tells of them.
	DeletionPoll time.Duration
	// DeletionWaveTimeout is how long objects that do not go away hold back the deletion of others.
	DeletionWaveTimeout time.Duration
	// Parallel is how many objects of one wave are in work at once.
	Parallel int
	// MaxDecompressedBytes bounds what a compressed data value may grow to.
	MaxDecompressedBytes int64

	// Kstatus tells whether objects of kinds without a health rule are judged by their status, unless a set says otherwise;
	// Registered tells which kinds are Kubernetes' own, to which that never applies.
	Kstatus    bool
	Registered func(schema.GroupVersionKind) bool
	// Judge returns the conditions of an applied set including those of health and progress, and false if they cannot be told
	// without a request: then Concluded has them written soon.
	Judge func(types.NamespacedName, *resourcesv1alpha1.ManagedResource) ([]corev1beta1.Condition, bool)
	// Concluded is called when a set is applied and can be judged, and when an object had to be recreated.
	Concluded func(types.NamespacedName)

	memory *memory
}

const (
	// deadlineCap bounds reads, deletions and applies of one pass.
	deadlineCap = 3 * time.Minute
	// settlePause is how soon a pass is repeated when something it relied on changed under it.
	settlePause = 10 * time.Millisecond
)

// Reconcile implements reconcile.Reconciler.
func (r *Reconciler) Reconcile(ctx context.Context, request ctrl.Request) (ctrl.Result, error) {
	if r.atRest(ctx, request.NamespacedName) {
		return ctrl.Result{RequeueAfter: r.SyncPeriod}, nil
	}
	mr, err := r.read(ctx, request.NamespacedName)
	if apierrors.IsNotFound(err) {
		r.retire(request.NamespacedName)
		return ctrl.Result{}, nil
	}
	if err != nil {
		return ctrl.Result{}, err
	}
	if r.memory.ended(mr) { // without this, all its objects would be looked for once more
		r.retire(request.NamespacedName)
		return ctrl.Result{}, nil
	}
	next := r.Class.next(mr)
	log.FromContext(ctx).V(1).Info("Reconciling", "step", next)
	switch next {
	case stepIgnore:
		r.Watcher.Release(request.NamespacedName)
		p := r.newPass(ctx, mr)
		p.set.loaded, p.set.settled, p.set.watched, p.set.announced = false, false, false, ""
		r.memory.resume(p.name)
		r.unpublish(ctx, mr)
		return ctrl.Result{}, r.report(ctx, p, ignoring()...)
	case stepPlan:
		r.oversee(ctx, mr)
		return r.planSet(ctx, mr)
	case stepRemove:
		return r.removeSet(ctx, mr)
	case stepApply:
		if _, err := r.takeOperation(ctx, mr); err != nil {
			return ctrl.Result{}, err
		}
		return r.applySet(ctx, mr)
	case stepNone:
		r.leavePlan(ctx, mr)
		r.retire(request.NamespacedName)
	case stepWait:
		r.oversee(ctx, mr)
	}
	return ctrl.Result{}, nil
}

// oversee lets a set be judged that an earlier process applied and that nothing may be done with now.
func (r *Reconciler) oversee(ctx context.Context, mr *resourcesv1alpha1.ManagedResource) {
	applied := corev1beta1.GetCondition(mr.Status.Conditions, resourcesv1alpha1.ResourcesApplied)
	if applied == nil || applied.Status != corev1beta1.ConditionTrue || mr.DeletionTimestamp != nil || !r.Class.responsible(mr) {
		return
	}
	name := types.NamespacedName{Namespace: mr.Namespace, Name: mr.Name}
	if r.memory.isConcluded(name) {
		return
	}
	bounded, cancel := context.WithTimeout(ctx, min(r.SyncPeriod, deadlineCap))
	defer cancel()
	p := r.newPass(ctx, mr)
	p.set.kstatus = health.Kstatus(mr, r.Kstatus)
	r.memory.want(name, wantedKeys(p.set.items, mr.Status.Resources))
	r.Watcher.Use(bounded, name, r.needs(p))
	r.tell(p, false)
}

// retire gives up a set that is gone or not ours.
func (r *Reconciler) retire(name types.NamespacedName) {
	r.Watcher.Release(name)
	r.SecretVersions.Release(name)
	r.memory.retire(name)
	r.Metrics.forget(name)
}

// read returns the set from the cache, or live if the cache is behind what we wrote ourselves: a status from before
// that would name the wrong objects.
func (r *Reconciler) read(ctx context.Context, name types.NamespacedName) (*resourcesv1alpha1.ManagedResource, error) {
	mr := &resourcesv1alpha1.ManagedResource{}
	err := r.Source.Get(ctx, name, mr)
	if apierrors.IsNotFound(err) {
		r.memory.forget(name)
	}
	if err != nil {
		return nil, fmt.Errorf("read ManagedResource: %w", err)
	}
	if !observe.Older(mr.ResourceVersion, r.memory.version(name)) {
		return mr, nil
	}
	mr = &resourcesv1alpha1.ManagedResource{}
	if err := r.SourceLive.Get(ctx, name, mr); err != nil {
		return nil, fmt.Errorf("read ManagedResource: %w", err)
	}
	if observe.Older(mr.ResourceVersion, r.memory.version(name)) {
		// Older than what we wrote, and not from a cache: the source was restored from a backup.
		log.FromContext(ctx).Info("The set was restored to an earlier version", "resourceVersion", mr.ResourceVersion)
		r.memory.forget(name)
	}
	return mr, nil
}

// takeOperation removes the annotation that asks for a reconciliation, and tells whether it was there.
func (r *Reconciler) takeOperation(ctx context.Context, mr *resourcesv1alpha1.ManagedResource) (bool, error) {
	if mr.Annotations[resourcesv1alpha1.GardenerOperation] != resourcesv1alpha1.OperationReconcile {
		return false, nil
	}
	before := mr.DeepCopy()
	delete(mr.Annotations, resourcesv1alpha1.GardenerOperation)
	if err := r.Source.Patch(ctx, mr, client.MergeFrom(before)); err != nil {
		return false, fmt.Errorf("remove annotation %s: %w", resourcesv1alpha1.GardenerOperation, err)
	}
	r.memory.wrote(mr)
	r.memory.of(client.ObjectKeyFromObject(mr)).auditOwed = true
	return true, nil
}

// applySet is the normal case: the steps of the specification's section 2.4.
func (r *Reconciler) applySet(ctx context.Context, mr *resourcesv1alpha1.ManagedResource) (ctrl.Result, error) {
	r.unpublish(ctx, mr)
	if refusal, err := r.refusal(ctx, mr.Namespace); err != nil || refusal != "" {
		return r.refuseSet(ctx, mr, refusal, err)
	}
	if err := r.hold(ctx, mr); err != nil {
		return ctrl.Result{}, err
	}
	p := r.newPass(ctx, mr)
	if r.auditDue(p.set) {
		p.set.auditOwed = true
	}
	bounded, cancel := context.WithTimeoutCause(ctx, min(r.SyncPeriod, deadlineCap), errors.New("the time for one reconciliation is over"))
	defer cancel()
	if err := r.load(bounded, p); err != nil {
		return ctrl.Result{}, r.cannotRead(ctx, p, err)
	}
	if err := r.announce(ctx, p); err != nil {
		return ctrl.Result{}, err
	}
	if kstatus := health.Kstatus(mr, r.Kstatus); !p.set.settled || !p.set.watched || p.set.kstatus != kstatus {
		p.set.kstatus = kstatus
		r.Watcher.Use(bounded, p.name, r.needs(p))
	}
	if open, again := r.prune(bounded, p); len(open) > 0 {
		return r.reportPending(ctx, p, open, again)
	}
	if err := r.release(ctx, p); err != nil {
		r.Events.failed(p, nil, resourcesv1alpha1.ReleaseOfOrphanedResourcesFailed, err.Error())
		return ctrl.Result{}, errors.Join(err, r.report(ctx, p,
			applied(corev1beta1.ConditionFalse, resourcesv1alpha1.ReleaseOfOrphanedResourcesFailed, err.Error())))
	}
	return r.conclude(ctx, p, r.apply(bounded, p))
}

// hold adds our finalizer and records the cluster ID, under the condition that nobody else changed the set meanwhile.
func (r *Reconciler) hold(ctx context.Context, mr *resourcesv1alpha1.ManagedResource) error {
	before := mr.DeepCopy()
	added := controllerutil.AddFinalizer(mr, r.Class.finalizer())
	recorded := recordClusterID(mr, r.ClusterID, added && len(mr.Status.Resources) == 0)
	if !added && !recorded {
		return nil
	}
	if err := r.Source.Patch(ctx, mr, client.MergeFromWithOptions(before, client.MergeFromWithOptimisticLock{})); err != nil {
		return fmt.Errorf("add finalizer: %w", err)
	}
	r.memory.wrote(mr)
	return nil
}

// auditDue tells whether all objects of a set are to be read, and sets the time for the next audit. The first one
// comes after one period on average, since a set begins with reads or writes anyway.
func (r *Reconciler) auditDue(s *set) bool {
	if r.AuditPeriod <= 0 {
		return false
	}
	now := r.Clock.Now()
	if !s.nextAudit.IsZero() && now.Before(s.nextAudit) {
		return false
	}
	due := !s.nextAudit.IsZero()
	s.nextAudit = now.Add(r.AuditPeriod/2 + time.Duration(float64(r.AuditPeriod)*r.Jitter()))
	return due
}

// prune deletes objects that the set no longer contains. While documents are unreadable nothing is obsolete.
func (r *Reconciler) prune(ctx context.Context, p *pass) ([]pending, time.Time) {
	if len(p.set.faults) > 0 || p.set.settled {
		return nil, time.Time{} // a settled set's status names exactly what it contains
	}
	p.compare(p.before)
	obsolete := p.index.Obsolete()
	if len(obsolete) == 0 {
		p.set.removal = removal{}
		return nil, time.Time{}
	}
	open, again := r.remove(ctx, p, obsolete)
	if len(open) == 0 { // unless this is stored, they are obsolete again the next time
		neverWritten := p.set.removal.neverWritten
		p.set.removal = removal{done: maps.Clone(neverWritten), neverWritten: neverWritten}
	}
	return open, again
}

// removeSet deletes the set's objects, unless they are to be kept, and then lets go of the set.
func (r *Reconciler) removeSet(ctx context.Context, mr *resourcesv1alpha1.ManagedResource) (ctrl.Result, error) {
	r.unpublish(ctx, mr)
	p := r.newPass(ctx, mr)
	if !p.set.removal.whole {
		p.set.removal = removal{whole: true, done: p.set.unwritten()}
	}
	keep := isTrue(mr.Spec.KeepObjects)
	if err := r.report(ctx, p, leaving(mr.Status.Conditions, keep)...); err != nil {
		return ctrl.Result{}, err
	}
	if !keep {
		bounded, cancel := context.WithTimeoutCause(ctx, min(r.SyncPeriod, deadlineCap), errors.New("the time for one reconciliation is over"))
		defer cancel()
		p.set.items, p.set.loaded = nil, false
		r.memory.want(p.name, wantedKeys(nil, mr.Status.Resources))
		r.Watcher.Use(bounded, p.name, r.needs(p))
		if open, again := r.remove(bounded, p, mr.Status.Resources); len(open) > 0 {
			return r.reportPending(ctx, p, open, again)
		}
	}
	before := p.mr.DeepCopy()
	if controllerutil.RemoveFinalizer(p.mr, r.Class.finalizer()) {
		delete(p.mr.Annotations, resourcesv1alpha1.ClusterIDs) // the next controller may have another ID
		err := r.Source.Patch(ctx, p.mr, client.MergeFromWithOptions(before, client.MergeFromWithOptimisticLock{}))
		if client.IgnoreNotFound(err) != nil {
			return ctrl.Result{}, fmt.Errorf("remove finalizer: %w", err)
		}
		r.memory.wrote(p.mr)
		if p.mr.DeletionTimestamp != nil && len(p.mr.Finalizers) == 0 { // the answer bears the version of the set as it was
			p.set.left = p.mr.UID
		}
	}
	r.retire(p.name)
	return ctrl.Result{}, nil
}

// cannotRead reports a Secret that is missing or unreadable. Nothing was applied or deleted.
func (r *Reconciler) cannotRead(ctx context.Context, p *pass, err error) error {
	if ctx.Err() != nil { // the process ends
		return err
	}
	r.Events.failed(p, nil, resourcesv1alpha1.ConditionCannotReadSecret, err.Error())
	return errors.Join(err, r.report(ctx, p, applied(corev1beta1.ConditionFalse, resourcesv1alpha1.ConditionCannotReadSecret, err.Error())))
}
