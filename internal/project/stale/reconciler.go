// Package stale finds projects that are not used, marks them as stale, and deletes them if they stay unused.
//
// The controller watches Projects and Namespaces, and reads the caches of package served, all in the garden cluster. In the status of a
// Project, it writes two fields only; it also writes annotations. Before it deletes a Project, it reads the Project, its namespace and the
// objects that count as use from the API server, because a cache may lag. Only lists of bindings may be some seconds old. Then it confirms
// the deletion in an annotation, and deletes the Project only if it has not changed since. If any step fails, the Project is not deleted.
// While it is unknown whether a project is used, the status of the project stays as it is. The process may stop after any step: all state
// is in the status, the annotations and the Events, and the next pass continues from there.
package stale

import (
	"context"
	"fmt"
	"maps"
	"strconv"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/clock"
	"k8s.io/utils/ptr"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/log"

	corev1beta1 "github.com/espalier-dev/espalier/api/core/v1beta1"
	"github.com/espalier-dev/espalier/internal/config"
	"github.com/espalier-dev/espalier/internal/conflict"
	"github.com/espalier-dev/espalier/internal/project/served"
	"github.com/espalier-dev/espalier/internal/project/trigger"
	"github.com/espalier-dev/espalier/internal/project/usage"
)

// Projects are watched, patched, and read again before they are deleted.
// +kubebuilder:rbac:groups=core.gardener.cloud,resources=projects,verbs=get;list;watch;patch;delete,roleName=espalier-project-controller-source
// +kubebuilder:rbac:groups=core.gardener.cloud,resources=projects/status,verbs=patch,roleName=espalier-project-controller-source
// The annotations of namespaces say whether their projects are exempted.
// +kubebuilder:rbac:groups="",resources=namespaces,verbs=get;list;watch,roleName=espalier-project-controller-source

// Reconciler judges Projects.
type Reconciler struct {
	// Client reads Projects and Namespaces from the caches, writes Projects, and creates Events.
	Client client.Client
	// Live reads from the API server.
	Live client.Reader
	// Served provides the objects that count as use.
	Served *served.Tracker
	Rules  Rules
	Clock  clock.PassiveClock
	// Registry takes the metrics.
	Registry prometheus.Registerer

	judged      judgedProjects
	again       trigger.Trigger
	wouldDelete prometheus.Counter // set by SetupWithManager, needed in a rehearsal
}

// Reconcile judges one Project and acts on the result.
func (r *Reconciler) Reconcile(ctx context.Context, request ctrl.Request) (ctrl.Result, error) {
	project := &corev1beta1.Project{}
	if err := r.Client.Get(ctx, request.NamespacedName, project); err != nil {
		if apierrors.IsNotFound(err) {
			r.judged.projects.Forget(request.Name)
		}
		return ctrl.Result{}, client.IgnoreNotFound(err)
	}
	logger := log.FromContext(ctx).V(1).WithValues("resourceVersion", project.ResourceVersion)
	if project.DeletionTimestamp != nil || ptr.Deref(project.Spec.Namespace, "") == "" {
		r.judged.setUndecided(request.Name, false)
		logger.Info("Judged project", "verdict", "not to be judged")
		return ctrl.Result{RequeueAfter: r.Rules.SyncPeriod}, nil
	}
	f, err := r.gather(ctx, r.Client, r.Served, project)
	if err != nil {
		return ctrl.Result{}, err
	}
	f.use = r.judged.completeUse(project.Name, project.UID, f.now, f.use)
	p := r.Rules.judge(f)
	logger.Info("Judged project", "verdict", p.row)
	again, err := r.reportSuspension(ctx, project.Name, f, p)
	if err != nil {
		return ctrl.Result{}, err
	}
	if again > 0 {
		p.next = min(p.next, again)
	}
	if err := r.carryOut(ctx, project, f, p); err != nil {
		return ctrl.Result{}, err
	}
	return ctrl.Result{RequeueAfter: p.next}, nil
}

// carryOut carries out the plan. It writes an announcement before it creates the Event, and does both before it deletes.
func (r *Reconciler) carryOut(ctx context.Context, judged *corev1beta1.Project, f facts, p plan) error {
	project := judged.DeepCopy() // each write starts from the result of the one before, and fails if another client has changed the object
	if err := r.writeAnnotations(ctx, project, p); err != nil || p.undecided {
		return err
	}
	if err := r.writeStatus(ctx, project, p); err != nil {
		return err
	}
	for _, each := range p.events {
		if _, err := r.announce(ctx, project, f.now, each.reason, each.at); err != nil {
			return err
		}
	}
	switch {
	case !p.due:
		return nil
	case r.Rules.Deletion == config.StaleDeletionDryRun:
		first, err := r.announce(ctx, project, f.now, ReasonWouldDelete, p.autoDelete.Time)
		if first {
			r.wouldDelete.Inc()
		}
		return err
	default:
		return r.delete(ctx, project)
	}
}

// gather collects the facts about a Project. It reads the namespace with the argument reader. If the rules need the use of the project, it
// searches the argument caches for objects that use the project. If Shoots are not served, and the caches show no use and no obstacle, it
// searches the API server for workloads.
func (r *Reconciler) gather(ctx context.Context, reader client.Reader, caches usage.Caches, project *corev1beta1.Project) (facts, error) {
	namespace := newNamespace()
	if err := reader.Get(ctx, client.ObjectKey{Name: *project.Spec.Namespace}, namespace); err != nil {
		return facts{}, fmt.Errorf("read namespace %q: %w", *project.Spec.Namespace, err)
	}
	skip, err := strconv.ParseBool(namespace.Annotations[corev1beta1.AnnotationSkipStaleCheck])
	f := facts{
		now: r.Clock.Now(), created: project.CreationTimestamp.Time, skip: err == nil && skip,
		lastActivity: project.Status.LastActivityTimestamp,
		staleSince:   project.Status.StaleSinceTimestamp, autoDelete: project.Status.StaleAutoDeleteTimestamp,
		lasting: namespace.Name == corev1beta1.GardenNamespace, announced: announcement(project.Annotations),
	}
	if !r.Rules.needsUse(f) {
		return f, nil
	}
	f.use = usage.CheckCaches(caches, namespace.Name)
	if f.use.WithoutShoots && f.use.By == "" && !f.use.Undecided {
		if f.use, err = usage.CheckServer(ctx, r.Served.HasObject, namespace.Name); err != nil {
			return facts{}, err
		}
	}
	return f, nil
}

// newNamespace is an empty namespace, of which only metadata is read.
func newNamespace() *metav1.PartialObjectMetadata {
	return &metav1.PartialObjectMetadata{TypeMeta: metav1.TypeMeta{APIVersion: "v1", Kind: "Namespace"}}
}

// writeAnnotations writes the announcement of the plan, and withdraws this controller's own confirmation if no deletion is due.
func (r *Reconciler) writeAnnotations(ctx context.Context, project *corev1beta1.Project, p plan) error {
	want := &metav1.ObjectMeta{Annotations: maps.Clone(project.Annotations)}
	if !p.undecided {
		p.setAnnouncement(want)
	}
	if !p.due || r.Rules.Deletion != config.StaleDeletionDelete {
		withdraw(want.Annotations)
	}
	if maps.Equal(project.Annotations, want.Annotations) {
		return nil
	}
	before := project.DeepCopy()
	project.Annotations = want.Annotations
	if err := r.Client.Patch(ctx, project, conflict.MergeFrom(before)); client.IgnoreNotFound(err) != nil {
		return fmt.Errorf("write annotations: %w", err)
	}
	log.FromContext(ctx).Info("Changed announcement of deletion", "verdict", p.row, "deletion", timeOf(p.announced))
	return nil
}

// writeStatus writes the two fields of this controller, if they differ from the plan.
func (r *Reconciler) writeStatus(ctx context.Context, project *corev1beta1.Project, p plan) error {
	status := &project.Status
	if status.StaleSinceTimestamp.Equal(p.staleSince) && status.StaleAutoDeleteTimestamp.Equal(p.autoDelete) {
		return nil
	}
	before := project.DeepCopy()
	// Copies, because the answer to the patch is decoded into them.
	status.StaleSinceTimestamp, status.StaleAutoDeleteTimestamp = p.staleSince.DeepCopy(), p.autoDelete.DeepCopy()
	err := r.Client.Status().Patch(ctx, project, conflict.MergeFrom(before))
	if apierrors.IsNotFound(err) {
		return nil
	}
	if err != nil {
		return fmt.Errorf("write status: %w", err)
	}
	log.FromContext(ctx).Info("Changed status of use", "verdict", p.row, "staleSince", timeOf(p.staleSince), "autoDelete",
		timeOf(p.autoDelete))
	return nil
}

func timeOf(t *metav1.Time) string {
	if t == nil {
		return ""
	}
	return t.UTC().Format(time.RFC3339)
}
