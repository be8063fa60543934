// Package activity notes in a Project when something that counts as use was last created, changed or deleted in its
// namespace.
//
// It watches Shoots, BackupEntries, Plants, Secrets and Quotas, as far as they are served, and writes the field
// status.lastActivityTimestamp of Projects, all in the garden cluster. What happens while no process runs leaves no trace,
// but in objects that are younger than an hour when the next one starts. A process that dies before the write has lost
// the activity likewise.
package activity

import (
	"context"
	"fmt"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	toolscache "k8s.io/client-go/tools/cache"
	"k8s.io/utils/clock"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/controller"
	"sigs.k8s.io/controller-runtime/pkg/log"

	corev1beta1 "github.com/espalier-dev/espalier/api/core/v1beta1"
	"github.com/espalier-dev/espalier/internal/project/index"
	"github.com/espalier-dev/espalier/internal/project/served"
	"github.com/espalier-dev/espalier/internal/project/trigger"
)

// Projects are watched, and the time of the last activity is written.
// +kubebuilder:rbac:groups=core.gardener.cloud,resources=projects,verbs=get;list;watch,roleName=espalier-project-controller-source
// +kubebuilder:rbac:groups=core.gardener.cloud,resources=projects/status,verbs=patch,roleName=espalier-project-controller-source

// ControllerName names the controller in logs and metrics.
const ControllerName = "project-activity"

// deadline bounds one write.
const deadline = 3 * time.Minute

// Kinds are those whose events count.
func Kinds() []served.Kind {
	return []served.Kind{served.Shoot, served.BackupEntry, served.Plant, served.Secret, served.Quota}
}

// Reconciler writes the time of the last activity.
type Reconciler struct {
	// Client reads from the cache and writes.
	Client client.Client
	Clock  clock.PassiveClock

	active trigger.Trigger
}

// SetupWithManager adds the controller to the manager. The Tracker must not run yet.
func (r *Reconciler) SetupWithManager(mgr ctrl.Manager, tracker *served.Tracker, workers int) error {
	for _, kind := range Kinds() {
		tracker.Handle(kind, r.handler(kind))
	}
	return ctrl.NewControllerManagedBy(mgr). //nolint:wrapcheck // the caller names the controller
							Named(ControllerName).
							WatchesRawSource(r.active.Source()).
							WithOptions(controller.Options{MaxConcurrentReconciles: workers, ReconciliationTimeout: deadline}).
							Complete(r)
}

// handler makes us look at the Projects of objects that something happens to.
func (r *Reconciler) handler(kind served.Kind) toolscache.ResourceEventHandler {
	counts := of(kind)
	return toolscache.ResourceEventHandlerFuncs{
		AddFunc: func(object any) {
			if created, ok := object.(metav1.Object); ok && counts.created(created, r.Clock.Now()) {
				r.note(created.GetNamespace())
			}
		},
		UpdateFunc: func(old, object any) {
			before, known := old.(metav1.Object)
			after, ok := object.(metav1.Object)
			if known && ok && counts.updated(before, after) {
				r.note(after.GetNamespace())
			}
		},
		DeleteFunc: func(object any) {
			if deleted := served.Deleted(object); deleted != nil && counts.deleted(deleted) {
				r.note(deleted.GetNamespace())
			}
		},
	}
}

// note makes us look at the Project of a namespace. Most namespaces of a cluster are those of none.
func (r *Reconciler) note(namespace string) {
	ctx, cancel := context.WithTimeout(context.Background(), deadline) // handlers have none of their own
	defer cancel()
	project, err := index.Find(ctx, r.Client, namespace)
	if err != nil {
		log.Log.WithName(ControllerName).Error(err, "Could not tell whose activity it was", "namespace", namespace)
		return
	}
	if project != nil {
		r.active.Add(project.Name)
	}
}

// Reconcile writes that there was activity just now. Many events of one second are one activity.
func (r *Reconciler) Reconcile(ctx context.Context, request ctrl.Request) (ctrl.Result, error) {
	project := &corev1beta1.Project{}
	if err := r.Client.Get(ctx, request.NamespacedName, project); err != nil {
		return ctrl.Result{}, client.IgnoreNotFound(err)
	}
	now := metav1.NewTime(r.Clock.Now().UTC().Truncate(time.Second))
	if last := project.Status.LastActivityTimestamp; last != nil && last.Time.Equal(now.Time) {
		return ctrl.Result{}, nil
	}
	patch := fmt.Appendf(nil, `{"status":{"lastActivityTimestamp":%q}}`, now.Format(time.RFC3339))
	err := r.Client.Status().Patch(ctx, project, client.RawPatch(types.MergePatchType, patch))
	if err != nil && !apierrors.IsNotFound(err) {
		return ctrl.Result{}, fmt.Errorf("write last activity: %w", err)
	}
	return ctrl.Result{}, nil
}
