// Package activity records in a Project when an object that counts as use was last created, changed or deleted in its namespace.
//
// It watches Shoots, BackupEntries, Plants, Secrets and Quotas, as far as they are served, and writes the field
// status.lastActivityTimestamp of Projects, all in the garden cluster. Its queue has the names of namespaces. The Project of a namespace is
// looked up when the namespace is processed, and again for some seconds if it is not in the cache yet. Changes while no process runs are
// not recorded, except for objects that are younger than an hour when the next process starts. If the process stops before the write, the
// activity is lost too.
package activity

import (
	"cmp"
	"context"
	"fmt"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/utils/clock"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/controller"

	"github.com/espalier-dev/espalier/internal/conflict"
	"github.com/espalier-dev/espalier/internal/process"
	"github.com/espalier-dev/espalier/internal/project/index"
	"github.com/espalier-dev/espalier/internal/project/memory"
	"github.com/espalier-dev/espalier/internal/project/served"
	"github.com/espalier-dev/espalier/internal/project/trigger"
)

// Projects are watched, and the time of the last activity is written.
// +kubebuilder:rbac:groups=core.gardener.cloud,resources=projects,verbs=get;list;watch,roleName=espalier-project-controller-source
// +kubebuilder:rbac:groups=core.gardener.cloud,resources=projects/status,verbs=patch,roleName=espalier-project-controller-source

// ControllerName names the controller in logs and metrics.
const ControllerName = "project-activity"

// Reconciler writes the time of the last activity.
type Reconciler struct {
	// Client reads Projects from the cache, and patches their status.
	Client client.Client
	Clock  clock.PassiveClock

	active trigger.Trigger // with the names of namespaces

	// missed counts how often no Project was found for a namespace since its last event. After a restart, the counts begin at zero.
	missed memory.ByName[int]
}

// pauses are the pauses between attempts to find the Project of a namespace. After the last one the controller gives up, because most
// namespaces have no Project.
var pauses = [...]time.Duration{time.Second, 4 * time.Second, 16 * time.Second}

// SetupWithManager adds the controller to the manager. The Tracker must not run yet.
func (r *Reconciler) SetupWithManager(mgr ctrl.Manager, tracker *served.Tracker, workers int) error {
	for _, kind := range []served.Kind{served.Shoot, served.BackupEntry, served.Plant, served.Secret, served.Quota} {
		tracker.Handle(kind, func(before, after *served.Object) {
			if isActivity(kind, before, after, r.Clock.Now()) {
				r.active.Add(cmp.Or(after, before).Namespace)
			}
		})
	}
	return ctrl.NewControllerManagedBy(mgr).
		Named(ControllerName).
		WatchesRawSource(r.active.Source()).
		WithOptions(controller.Options{MaxConcurrentReconciles: workers, ReconciliationTimeout: process.Deadline}).
		Complete(conflict.RetryAtOnce(r))
}

// newness is the age up to which an object that is reported as created counts as created now. Most objects that exist when the process
// starts are older, and are no activity.
const newness = time.Hour

// isActivity reports whether a change of an object counts. Secrets and Quotas count only while bindings refer to them.
func isActivity(kind served.Kind, before, after *served.Object, now time.Time) bool {
	labelled := kind == served.Secret || kind == served.Quota
	switch {
	case before == nil:
		return now.Sub(time.Unix(after.Created, 0)) <= newness && (!labelled || after.Referenced)
	case after == nil:
		return !labelled || before.Referenced
	case before.ResourceVersion == after.ResourceVersion:
		return false
	case labelled:
		return before.Referenced || after.Referenced
	default:
		// Another UID means another object of the same name: the deletion of the first one was not reported.
		return before.Generation != after.Generation || before.UID != after.UID
	}
}

// Reconcile records activity in a namespace at the current time. Several events within one second are one activity.
func (r *Reconciler) Reconcile(ctx context.Context, request ctrl.Request) (ctrl.Result, error) {
	project, err := index.Find(ctx, r.Client, request.Name)
	if err != nil {
		return ctrl.Result{}, err
	}
	if project == nil {
		return ctrl.Result{RequeueAfter: r.recordMiss(request.Name)}, nil
	}
	r.missed.Forget(request.Name)
	now := metav1.NewTime(r.Clock.Now().UTC().Truncate(time.Second))
	if last := project.Status.LastActivityTimestamp; last != nil && last.Time.Equal(now.Time) {
		return ctrl.Result{}, nil
	}
	patch := fmt.Appendf(nil, `{"status":{"lastActivityTimestamp":%q}}`, now.Format(time.RFC3339))
	// Patch a copy: the cache's own object must not be changed.
	err = r.Client.Status().Patch(ctx, project.DeepCopy(), client.RawPatch(types.MergePatchType, patch))
	if err != nil && !apierrors.IsNotFound(err) {
		return ctrl.Result{}, fmt.Errorf("write last activity of project %q: %w", project.Name, err)
	}
	return ctrl.Result{}, nil
}

// recordMiss returns after how long to look for the Project of a namespace again; 0 for never.
func (r *Reconciler) recordMiss(namespace string) (pause time.Duration) {
	r.missed.Change(namespace, func(misses *int) {
		if *misses == len(pauses) {
			*misses = 0
			return
		}
		pause = pauses[*misses]
		*misses++
	})
	return pause
}
