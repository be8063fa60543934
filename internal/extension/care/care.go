// Package care judges whether installed extensions work: it sets the conditions Installed, Healthy and Progressing of a
// ControllerInstallation from the conditions of its ManagedResource.
//
// It watches the ManagedResources of extensions in the Seed's cluster and writes the status of ControllerInstallations in the garden. It
// keeps no state of its own.
package care

import (
	"context"
	"fmt"
	"slices"
	"time"

	"k8s.io/apimachinery/pkg/types"
	"k8s.io/utils/clock"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/cache"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"
	"sigs.k8s.io/controller-runtime/pkg/source"

	corev1beta1 "github.com/espalier-dev/espalier/api/core/v1beta1"
	"github.com/espalier-dev/espalier/api/managedresources"
	resourcesv1alpha1 "github.com/espalier-dev/espalier/api/resources/v1alpha1"
	"github.com/espalier-dev/espalier/internal/conflict"
	"github.com/espalier-dev/espalier/internal/extension/conditions"
	"github.com/espalier-dev/espalier/internal/process"
)

// ControllerName names the controller in logs and metrics.
const ControllerName = "controllerinstallation-care"

// The pause before the next attempt for an installation that fails grows from shortestPause to longestPause.
const (
	shortestPause = 500 * time.Millisecond
	longestPause  = time.Minute
)

// Reasons of the conditions.
const (
	// reasonUnreadable goes with Installed=Unknown, Healthy=Unknown, Progressing=Unknown: the ManagedResource does not exist any more, or
	// does not belong to the installation.
	reasonUnreadable = "SeedReadError"
	// reasonInstalled goes with Installed=True: all objects of the extension are applied.
	reasonInstalled = "InstallationSuccessful"
	// reasonPending goes with Installed=False: objects of the extension are not applied. The message comes from the ManagedResource.
	reasonPending = "InstallationPending"
	// reasonHealthy goes with Healthy=True: all objects of the extension are healthy.
	reasonHealthy = "ControllerHealthy"
	// reasonUnhealthy goes with Healthy=False: an object of the extension is not healthy. The message comes from the ManagedResource.
	reasonUnhealthy = "ControllerNotHealthy"
	// reasonRolledOut goes with Progressing=False: all workloads of the extension are rolled out.
	reasonRolledOut = "ControllerRolledOut"
	// reasonNotRolledOut goes with Progressing=True: a workload is not rolled out. The message comes from the ManagedResource.
	reasonNotRolledOut = "ControllerNotRolledOut"
)

// Reconciler judges one installation at a time. Its fields are set once, before start.
type Reconciler struct {
	// Garden reads installations from the cache and writes their status.
	Garden client.Client
	// Seed reads ManagedResources from the cache.
	Seed client.Reader
	// SeedName is the name of the Seed.
	SeedName string
	// Namespace is the namespace of the ManagedResources.
	Namespace string
	// SyncPeriod is the time after which an installation is judged again without a change.
	SyncPeriod time.Duration
	Clock      clock.PassiveClock
}

// Reconcile implements reconcile.Reconciler.
func (r *Reconciler) Reconcile(ctx context.Context, request ctrl.Request) (ctrl.Result, error) {
	cached := &corev1beta1.ControllerInstallation{}
	if err := r.Garden.Get(ctx, request.NamespacedName, cached); err != nil {
		return ctrl.Result{}, client.IgnoreNotFound(err)
	}
	if cached.Spec.SeedRef.Name != r.SeedName || cached.DeletionTimestamp != nil {
		return ctrl.Result{}, nil
	}
	set := &resourcesv1alpha1.ManagedResource{}
	err := r.Seed.Get(ctx, types.NamespacedName{Namespace: r.Namespace, Name: cached.Name}, set)
	if client.IgnoreNotFound(err) != nil {
		return ctrl.Result{}, fmt.Errorf("read ManagedResource: %w", err)
	}
	if err == nil && set.Labels[corev1beta1.LabelManagedResourceInstallation] != cached.Name {
		err = fmt.Errorf("ManagedResource %s/%s does not belong to this installation", set.Namespace, set.Name)
	}
	if err != nil && !wasJudged(cached) {
		return ctrl.Result{}, nil // its installation has not begun, or failed before
	}
	verdicts := judge(set, err)
	if conditions.HasFailed(cached) {
		verdicts = slices.DeleteFunc(verdicts, func(v conditions.Verdict) bool { return v.Type == corev1beta1.ControllerInstallationInstalled })
	}
	err = conditions.Record(ctx, r.Garden, cached.DeepCopy(), func(status *corev1beta1.ControllerInstallationStatus) error {
		conditions.Set(r.Clock, status, verdicts...)
		return nil
	})
	return ctrl.Result{RequeueAfter: r.SyncPeriod}, err
}

// wasJudged reports whether the ManagedResource of an installation has existed.
func wasJudged(ci *corev1beta1.ControllerInstallation) bool {
	return corev1beta1.GetCondition(ci.Status.Conditions, corev1beta1.ControllerInstallationHealthy) != nil
}

// judge returns the verdicts about a ManagedResource, or about the error of reading it.
func judge(set *resourcesv1alpha1.ManagedResource, missing error) []conditions.Verdict {
	const installed, healthy, progressing = corev1beta1.ControllerInstallationInstalled, corev1beta1.ControllerInstallationHealthy,
		corev1beta1.ControllerInstallationProgressing
	if missing != nil {
		unknown := func(kind corev1beta1.ConditionType) conditions.Verdict {
			return verdict(kind, corev1beta1.ConditionUnknown, reasonUnreadable, missing.Error())
		}
		return []conditions.Verdict{unknown(installed), unknown(healthy), unknown(progressing)}
	}
	verdicts := []conditions.Verdict{
		verdict(installed, corev1beta1.ConditionTrue, reasonInstalled, "The controller was successfully installed in the seed cluster."),
		verdict(healthy, corev1beta1.ConditionTrue, reasonHealthy, "The controller running in the seed cluster is healthy."),
		verdict(progressing, corev1beta1.ConditionFalse, reasonRolledOut, "The controller has been rolled out successfully."),
	}
	if err := managedresources.CheckApplied(set); err != nil {
		verdicts[0] = verdict(installed, corev1beta1.ConditionFalse, reasonPending, err.Error())
	}
	if err := managedresources.CheckHealthy(set); err != nil {
		verdicts[1] = verdict(healthy, corev1beta1.ConditionFalse, reasonUnhealthy, err.Error())
	}
	if err := managedresources.CheckNotProgressing(set); err != nil {
		verdicts[2] = verdict(progressing, corev1beta1.ConditionTrue, reasonNotRolledOut, err.Error())
	}
	return verdicts
}

func verdict(kind corev1beta1.ConditionType, status corev1beta1.ConditionStatus, reason, message string) conditions.Verdict {
	return conditions.Verdict{Type: kind, Status: status, Reason: reason, Message: message}
}

// SetupWithManager adds the controller to the manager of the Seed's cluster. The other cache is of the garden.
func (r *Reconciler) SetupWithManager(mgr ctrl.Manager, garden cache.Cache, workers int) error {
	return ctrl.NewControllerManagedBy(mgr).
		Named(ControllerName).
		WatchesRawSource(source.Kind(garden, &corev1beta1.ControllerInstallation{}, process.OnEvent(installationEvent))).
		WatchesRawSource(source.Kind(mgr.GetCache(), &resourcesv1alpha1.ManagedResource{}, process.OnEvent(managedResourceEvent))).
		WithOptions(process.ControllerOptions(workers, process.Deadline, shortestPause, longestPause)).
		Complete(conflict.RetryAtOnce(r))
}

// installationEvent enqueues an installation that the process sees for the first time. It also enqueues an installation whose condition
// Installed, Healthy or Progressing has changed: this controller writes these conditions, and decides by them. A resync enqueues each
// installation, too.
func installationEvent(_ context.Context, before, after *corev1beta1.ControllerInstallation, q process.Queue) {
	if after == nil {
		return
	}
	if before != nil && before.ResourceVersion != after.ResourceVersion && !corev1beta1.ConditionsDiffer(
		before.Status.Conditions, after.Status.Conditions, corev1beta1.ControllerInstallationInstalled,
		corev1beta1.ControllerInstallationHealthy, corev1beta1.ControllerInstallationProgressing) {
		return
	}
	q.Add(reconcile.Request{NamespacedName: client.ObjectKeyFromObject(after)})
}

// managedResourceEvent enqueues the installation of a ManagedResource that is new, deleted, or changed.
func managedResourceEvent(_ context.Context, before, after *resourcesv1alpha1.ManagedResource, q process.Queue) {
	set := after
	if set == nil {
		set = before
	}
	q.Add(reconcile.Request{NamespacedName: types.NamespacedName{Name: set.Labels[corev1beta1.LabelManagedResourceInstallation]}})
}
