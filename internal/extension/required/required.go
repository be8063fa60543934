// Package required judges whether a Seed needs its extensions. The condition Required of a ControllerInstallation is True as long as
// objects exist for which its ControllerRegistration is responsible. gardener-controller-manager keeps such an installation.
//
// The package watches the objects of extensions in the Seed's cluster and keeps their types in memory. It reads ControllerRegistrations in
// the garden, and writes the status of ControllerInstallations. After a restart, it lists the objects of each kind again.
package required

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/utils/clock"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/cache"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"
	"sigs.k8s.io/controller-runtime/pkg/source"

	corev1beta1 "github.com/espalier-dev/espalier/api/core/v1beta1"
	"github.com/espalier-dev/espalier/internal/conflict"
	"github.com/espalier-dev/espalier/internal/extension/conditions"
	"github.com/espalier-dev/espalier/internal/process"
)

// To watch the objects of extensions.
// +kubebuilder:rbac:groups=extensions.gardener.cloud,resources=backupbuckets;backupentries;bastions;containerruntimes;controlplanes;dnsrecords;extensions;infrastructures;networks;operatingsystemconfigs;selfhostedshootexposures;workers,verbs=list;watch

// ControllerName names the controller in logs and metrics.
const ControllerName = "controllerinstallation-required"

const (
	// The pause before the next attempt for an installation that fails grows from shortestPause to longestPause.
	shortestPause = 500 * time.Millisecond
	longestPause  = time.Minute
	// listPause is the pause until the next attempt while the objects of a kind are not listed yet.
	listPause = 2 * time.Second
)

// Reasons of the condition Required.
const (
	// reasonObjects goes with Required=True: objects exist that the extension is responsible for. The message names their kinds and types.
	reasonObjects = "ExtensionObjectsExist"
	// reasonNoObjects goes with Required=False: no object exists that the extension is responsible for.
	reasonNoObjects = "NoExtensionObjects"
)

// kinds are the kinds that extensions are responsible for.
var kinds = []string{
	"BackupBucket", "BackupEntry", "Bastion", "ContainerRuntime", "ControlPlane", "DNSRecord", "Extension", "Infrastructure", "Network",
	"OperatingSystemConfig", "SelfHostedShootExposure", "Worker",
}

var groupVersion = schema.GroupVersion{Group: "extensions.gardener.cloud", Version: "v1alpha1"}

// Reconciler judges one installation at a time. Its fields are set once, before start.
type Reconciler struct {
	// Garden reads installations from the cache and writes their status.
	Garden client.Client
	// GardenLive reads ControllerRegistrations.
	GardenLive client.Reader
	// Seed watches the objects of extensions. Its mapper is Mapper.
	Seed     client.WithWatch
	SeedName string
	Clock    clock.PassiveClock

	objects *objects
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
	registration := &corev1beta1.ControllerRegistration{}
	err := r.GardenLive.Get(ctx, types.NamespacedName{Name: cached.Spec.RegistrationRef.Name}, registration)
	if apierrors.IsNotFound(err) {
		return ctrl.Result{}, nil // the condition Valid says so
	}
	if err != nil {
		return ctrl.Result{}, fmt.Errorf("read ControllerRegistration: %w", err)
	}
	var found []string
	for _, each := range registration.Spec.Resources {
		if !slices.Contains(kinds, each.Kind) {
			continue
		}
		known, exists := r.objects.exists(each.Kind, each.Type)
		if !known {
			return ctrl.Result{RequeueAfter: listPause}, nil
		}
		if exists {
			found = append(found, each.Kind+"/"+each.Type)
		}
	}
	return ctrl.Result{}, conditions.Record(ctx, r.Garden, cached.DeepCopy(), func(status *corev1beta1.ControllerInstallationStatus) error {
		conditions.Set(r.Clock, status, judge(found))
		return nil
	})
}

// judge returns the condition Required of a ControllerInstallation. The argument found contains the kinds and types that have objects in
// the Seed and for which the extension is responsible.
func judge(found []string) conditions.Verdict {
	v := conditions.Verdict{
		Type: corev1beta1.ControllerInstallationRequired, Status: corev1beta1.ConditionFalse, Reason: reasonNoObjects,
		Message: "No extension objects exist in the seed that the controller is responsible for.",
	}
	if len(found) > 0 {
		slices.Sort(found)
		v.Status, v.Reason = corev1beta1.ConditionTrue, reasonObjects
		v.Message = "Extension objects exist in the seed that the controller is responsible for: " +
			strings.Join(slices.Compact(found), ", ") + "."
	}
	return v
}

// SetupWithManager adds the controller to the manager of the Seed's cluster. The argument garden is the cache of the garden cluster.
func (r *Reconciler) SetupWithManager(mgr ctrl.Manager, garden cache.Cache, workers int) error {
	r.objects = newObjects(r.Seed, garden, mgr.GetLogger().WithName(ControllerName))
	return ctrl.NewControllerManagedBy(mgr).
		Named(ControllerName).
		WatchesRawSource(source.Kind(garden, &corev1beta1.ControllerInstallation{}, process.OnEvent(installationEvent))).
		WatchesRawSource(r.objects).
		WithOptions(process.ControllerOptions(workers, process.Deadline, shortestPause, longestPause)).
		Complete(conflict.RetryAtOnce(r))
}

// installationEvent enqueues an installation that is new, whose condition Required changed, or whose ControllerRegistration changed:
// gardener-controller-manager writes the version of the ControllerRegistration into the reference. A resync enqueues the installation,
// too.
func installationEvent(_ context.Context, before, after *corev1beta1.ControllerInstallation, q process.Queue) {
	if after == nil || before != nil && before.ResourceVersion != after.ResourceVersion &&
		before.Spec.RegistrationRef == after.Spec.RegistrationRef &&
		!corev1beta1.ConditionsDiffer(before.Status.Conditions, after.Status.Conditions, corev1beta1.ControllerInstallationRequired) {
		return
	}
	q.Add(reconcile.Request{NamespacedName: client.ObjectKeyFromObject(after)})
}
