package lifecycle

import (
	"context"
	"fmt"
	"time"

	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/fields"
	"k8s.io/apimachinery/pkg/util/sets"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/cache"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/controller/controllerutil"
	"sigs.k8s.io/controller-runtime/pkg/event"
	"sigs.k8s.io/controller-runtime/pkg/handler"
	"sigs.k8s.io/controller-runtime/pkg/log"
	"sigs.k8s.io/controller-runtime/pkg/predicate"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"
	"sigs.k8s.io/controller-runtime/pkg/source"

	corev1beta1 "github.com/espalier-dev/espalier/api/core/v1beta1"
	"github.com/espalier-dev/espalier/internal/conflict"
	"github.com/espalier-dev/espalier/internal/process"
	"github.com/espalier-dev/espalier/internal/project/expiry"
	"github.com/espalier-dev/espalier/internal/project/index"
	"github.com/espalier-dev/espalier/internal/project/roles"
	"github.com/espalier-dev/espalier/internal/project/trigger"
)

// ControllerName names the controller in logs and metrics.
const ControllerName = "project"

const (
	// The pause after a failure grows from shortestPause to longestPause.
	shortestPause = 5 * time.Millisecond
	longestPause  = 1000 * time.Second
	// namespacePause is how long the controller waits for the deletion of a namespace before it checks again. It also watches the deletion.
	namespacePause = time.Minute
	// shootPause is how long the controller waits for the deletion of the last Shoot before it checks again: each check sends a request to the
	// API server.
	shootPause = 10 * time.Minute
)

// byExtensionProject is the name of the index that finds ClusterRoles by the Project whose extension roles they are.
const byExtensionProject = "extensionProject"

// CacheOptions keep the caches small. ResourceQuotas are cached only if one is configured.
func CacheOptions(quotas bool) map[client.Object]cache.ByObject {
	options := map[client.Object]cache.ByObject{
		&rbacv1.ClusterRole{}:        {Transform: roles.Trim},
		&rbacv1.ClusterRoleBinding{}: {Transform: roles.Trim},
		&rbacv1.RoleBinding{}:        {Transform: roles.Trim},
	}
	if quotas {
		options[&corev1.ResourceQuota{}] = cache.ByObject{Field: fields.OneTermEqualSelector("metadata.name", quotaName), Transform: trimQuota}
	}
	return options
}

// SetupWithManager adds the controller to the manager, whose cache needs CacheOptions and index.Add. The caller must call ShootDeleted for
// each deleted Shoot.
func (r *Reconciler) SetupWithManager(ctx context.Context, mgr ctrl.Manager, workers int) error {
	caches := mgr.GetCache()
	if err := mgr.GetFieldIndexer().IndexField(ctx, &rbacv1.ClusterRole{}, byExtensionProject, roles.ExtensionOf); err != nil {
		return fmt.Errorf("index ClusterRoles by Project: %w", err)
	}
	enqueue := &handler.TypedEnqueueRequestForObject[*corev1beta1.Project]{}
	return ctrl.NewControllerManagedBy(mgr).
		Named(ControllerName).
		WatchesRawSource(source.Kind(caches, &corev1beta1.Project{}, enqueue, r.needsReconciliation())).
		WatchesRawSource(source.Kind(caches, namespaceMeta(), r.namespaces())).
		WatchesRawSource(source.Kind[client.Object](caches, &rbacv1.RoleBinding{}, driftHandler(r))).
		WatchesRawSource(source.Kind[client.Object](caches, &rbacv1.ClusterRole{}, driftHandler(r))).
		WatchesRawSource(source.Kind[client.Object](caches, &rbacv1.ClusterRoleBinding{}, driftHandler(r))).
		WatchesRawSource(r.shoots.Source()).
		WithOptions(process.ControllerOptions(workers, process.Deadline, shortestPause, longestPause)).
		Complete(conflict.RetryAtOnce(r))
}

// needsReconciliation selects updates of Projects that change more than metadata and status, or remove the finalizer.
func (r *Reconciler) needsReconciliation() predicate.TypedFuncs[*corev1beta1.Project] {
	return predicate.TypedFuncs[*corev1beta1.Project]{
		UpdateFunc: func(e event.TypedUpdateEvent[*corev1beta1.Project]) bool {
			return e.ObjectOld.Generation != e.ObjectNew.Generation || e.ObjectOld.UID != e.ObjectNew.UID ||
				e.ObjectOld.DeletionTimestamp == nil && e.ObjectNew.DeletionTimestamp != nil ||
				controllerutil.ContainsFinalizer(e.ObjectOld, corev1beta1.GardenerFinalizer) &&
					!controllerutil.ContainsFinalizer(e.ObjectNew, corev1beta1.GardenerFinalizer) ||
				r.Own.MembershipExpiry && e.ObjectOld.Annotations[expiry.Annotation] != e.ObjectNew.Annotations[expiry.Annotation]
		},
	}
}

// namespaces enqueues the Projects that an event of a namespace concerns: Projects that wait to adopt the namespace, and Projects
// whose namespace is deleted.
func (r *Reconciler) namespaces() handler.TypedEventHandler[*metav1.PartialObjectMetadata, reconcile.Request] {
	return handler.TypedFuncs[*metav1.PartialObjectMetadata, reconcile.Request]{
		CreateFunc: func(ctx context.Context, e event.TypedCreateEvent[*metav1.PartialObjectMetadata], q process.Queue) {
			if !e.IsInInitialList { // after the initial list, every Project is reconciled anyway
				r.labelledNamespace(ctx, &metav1.ObjectMeta{}, &e.Object.ObjectMeta, q)
			}
		},
		UpdateFunc: func(ctx context.Context, e event.TypedUpdateEvent[*metav1.PartialObjectMetadata], q process.Queue) {
			r.labelledNamespace(ctx, &e.ObjectOld.ObjectMeta, &e.ObjectNew.ObjectMeta, q)
		},
		DeleteFunc: func(ctx context.Context, e event.TypedDeleteEvent[*metav1.PartialObjectMetadata], q process.Queue) {
			r.deletedNamespace(ctx, &e.Object.ObjectMeta, q)
		},
	}
}

// labelledNamespace enqueues the Project that can adopt a namespace now and could not before. The labels name at most one Project.
func (r *Reconciler) labelledNamespace(ctx context.Context, before, after *metav1.ObjectMeta, q process.Queue) {
	p := r.cachedProject(ctx, after.Labels[corev1beta1.LabelProjectName])
	if p == nil || p.DeletionTimestamp != nil || namespaceName(p) != after.Name || owns(p, after) {
		return
	}
	if check(p, after) == nil && check(p, before) != nil {
		q.Add(trigger.Request(p.Name))
	}
}

// deletedNamespace enqueues the Project that controlled a namespace, and Projects that name it but could not adopt it.
func (r *Reconciler) deletedNamespace(ctx context.Context, namespace *metav1.ObjectMeta, q process.Queue) {
	concerned := sets.New[string]()
	if owner := metav1.GetControllerOfNoCopy(namespace); owner != nil && isProject(owner) {
		concerned.Insert(owner.Name)
	}
	for _, p := range r.projectsOfNamespace(ctx, namespace.Name) {
		concerned.Insert(p.Name)
	}
	for name := range concerned {
		r.reconciled.markChanged(name)
		q.Add(trigger.Request(name))
	}
}

// projectsOfNamespace returns the Projects in the cache that name a namespace. Without the webhook that prevents it, there may be several.
func (r *Reconciler) projectsOfNamespace(ctx context.Context, namespace string) (found []*corev1beta1.Project) {
	projects, err := index.All(ctx, r.Client, namespace)
	if err != nil {
		log.FromContext(ctx).Error(err, "Could not find the Projects of a namespace, they wait for their next retry", "namespace", namespace)
	}
	for i := range projects {
		found = append(found, &projects[i])
	}
	return found
}

func isProject(owner *metav1.OwnerReference) bool {
	own := ownerOf(&corev1beta1.Project{})
	return owner.APIVersion == own.APIVersion && owner.Kind == own.Kind
}

// driftHandler returns a handler that enqueues the Project of an object that was deleted, or whose grants or owner have changed. Resyncs
// count too, as they cost no request if nothing differs. If an object of an extension role is created, and no member of the Project has
// this role, the handler also enqueues the Project: when the controller removed the role, its cache may not have had the object yet. The
// objects of the events are records of package roles.
func driftHandler(r *Reconciler) handler.TypedEventHandler[client.Object, reconcile.Request] {
	return handler.TypedFuncs[client.Object, reconcile.Request]{
		CreateFunc: func(ctx context.Context, e event.CreateEvent, q process.Queue) {
			if !e.IsInInitialList { // after the initial list, every Project is reconciled anyway
				r.onCreated(ctx, copyOf(e.Object), q)
			}
		},
		DeleteFunc: func(ctx context.Context, e event.DeleteEvent, q process.Queue) { r.onDeleted(ctx, copyOf(e.Object), q) },
		UpdateFunc: func(ctx context.Context, e event.UpdateEvent, q process.Queue) {
			if roles.GrantsSame(e.ObjectOld, e.ObjectNew) && e.ObjectOld.GetResourceVersion() != e.ObjectNew.GetResourceVersion() {
				return
			}
			r.enqueueOwner(ctx, copyOf(e.ObjectOld), q)
			if roles.Owner(e.ObjectNew) != roles.Owner(e.ObjectOld) {
				r.enqueueOwner(ctx, copyOf(e.ObjectNew), q)
			}
		},
	}
}

// onCreated enqueues a Project if the labels of a new object name an extension role of the Project that no member has. The Project will
// remove the object.
func (r *Reconciler) onCreated(ctx context.Context, o client.Object, q process.Queue) {
	if p := r.projectWithExtensionRole(ctx, o); p != nil && !r.reconciled.needsExtensionRole(p.Name, o.GetName()) {
		r.enqueueRepair(p, unneededExtensionRoles, q)
	}
}

// projectWithExtensionRole returns the Project that the labels of an extension role name, if the object is cluster-scoped or in the
// namespace of this Project; nil otherwise.
func (r *Reconciler) projectWithExtensionRole(ctx context.Context, o client.Object) *corev1beta1.Project {
	for _, name := range roles.ExtensionOf(o) { // at most one
		p := r.cachedProject(ctx, name)
		if p != nil && (o.GetNamespace() == "" || o.GetNamespace() == namespaceName(p)) {
			return p
		}
	}
	return nil
}

// cachedProject returns a Project from the cache; nil if it is not there.
func (r *Reconciler) cachedProject(ctx context.Context, name string) *corev1beta1.Project {
	p := &corev1beta1.Project{}
	if r.Client.Get(ctx, client.ObjectKey{Name: name}, p, client.UnsafeDisableDeepCopy) != nil {
		return nil
	}
	return p
}

// enqueueOwner enqueues the Project that owns an object.
func (r *Reconciler) enqueueOwner(ctx context.Context, o client.Object, q process.Queue) {
	if p := r.cachedProject(ctx, roles.Owner(o)); p != nil {
		r.enqueueRepair(p, describe(o), q)
	}
}

// onDeleted enqueues the Project that owned a deleted object. If the object had another owner, onDeleted also enqueues the Projects that
// were blocked by the object: it had the name of one of their roles or bindings, or it was an extension role that had to be removed. A
// finalizer may have delayed the deletion of the object until now.
func (r *Reconciler) onDeleted(ctx context.Context, o client.Object, q process.Queue) {
	r.enqueueOwner(ctx, o, q)
	owner := roles.Owner(o)
	if p := r.projectWithExtensionRole(ctx, o); p != nil && p.Name != owner {
		r.enqueueRepair(p, unneededExtensionRoles, q)
	}
	for _, p := range r.projectsNeeding(ctx, o) {
		if p.Name != owner {
			r.enqueueRepair(p, describe(o), q)
		}
	}
}

// projectsNeeding returns the Projects that need an object of this name, except for extension roles.
func (r *Reconciler) projectsNeeding(ctx context.Context, o client.Object) (found []*corev1beta1.Project) {
	if o.GetNamespace() == "" {
		if p := r.cachedProject(ctx, roles.ProjectOf(o.GetName())); p != nil {
			found = append(found, p)
		}
		return found
	}
	if !roles.IsMemberBinding(o.GetName()) {
		return nil
	}
	return r.projectsOfNamespace(ctx, o.GetNamespace())
}

// enqueueRepair enqueues a Project, unless it is being deleted: then nothing is restored. An object that another client keeps changing is
// restored after a pause.
func (r *Reconciler) enqueueRepair(p *corev1beta1.Project, about string, q process.Queue) {
	r.reconciled.markChanged(p.Name)
	if p.DeletionTimestamp != nil {
		return
	}
	if rest := r.reconciled.remainingPause(p.Name, about, r.Clock.Now()); rest > 0 {
		q.AddAfter(trigger.Request(p.Name), rest)
		return
	}
	q.Add(trigger.Request(p.Name))
}

// ShootDeleted enqueues the Projects that are being deleted and name a namespace in which a Shoot was deleted: they may wait for the
// deletion of the last Shoot. Several Projects may name the same namespace, but only one owns it.
func (r *Reconciler) ShootDeleted(ctx context.Context, namespace string) {
	for _, p := range r.projectsOfNamespace(ctx, namespace) {
		if p.DeletionTimestamp != nil {
			r.shoots.Add(p.Name)
		}
	}
}
