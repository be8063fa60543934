// Package health maintains the conditions ResourcesHealthy and ResourcesProgressing of ManagedResources: the health and the progressing
// controller of the specification.
//
// It watches ManagedResources in the source cluster. The watches on the target notify it when an object appears, disappears or changes its
// health. It writes the two conditions, both in one request, and nothing else. Objects are judged when the watches receive them, so a set
// is normally judged without a request. It reads live only these objects: objects that no watch covers, an object that seems to be
// missing, an object whose watch is behind for too long, the Events of an unhealthy Service, and the Pods of a Deployment if it seems to
// have more or fewer Pods than replicas. If a set has a ServiceAccount, it also sends requests to find out whether the ServiceAccount may
// read the objects that the conditions describe.
//
// If the health of a set changes quickly, the first change of its conditions is written at once, and further changes at most once per
// writeInterval. If Judge can compute the two conditions, the ManagedResource controller writes them together with the result of an apply.
//
// A set is judged only after the ManagedResource controller of this process has processed it, so that the watches which the set needs are
// running, and the resourceVersion of the last write to the set is known. If the process dies, the next process judges every set again.
// This writes nothing if nothing has changed.
package health

import (
	"context"
	"fmt"
	"regexp"
	"slices"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"k8s.io/apimachinery/pkg/api/equality"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/utils/clock"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"

	corev1beta1 "github.com/espalier-dev/espalier/api/core/v1beta1"
	resourcesv1alpha1 "github.com/espalier-dev/espalier/api/resources/v1alpha1"
	"github.com/espalier-dev/espalier/internal/apply"
	"github.com/espalier-dev/espalier/internal/apply/observe"
	"github.com/espalier-dev/espalier/internal/config"
	rules "github.com/espalier-dev/espalier/internal/health"
	"github.com/espalier-dev/espalier/internal/managedresource/identity"
	"github.com/espalier-dev/espalier/internal/managedresource/status"
	"github.com/espalier-dev/espalier/internal/process"
)

// ManagedResources are watched, and their conditions are written.
// +kubebuilder:rbac:groups=resources.gardener.cloud,resources=managedresources,verbs=get;list;watch,roleName=espalier-managedresource-controller-source
// +kubebuilder:rbac:groups=resources.gardener.cloud,resources=managedresources/status,verbs=patch,roleName=espalier-managedresource-controller-source
// Events explain why an object is not healthy.
// +kubebuilder:rbac:groups="",resources=events,verbs=list,roleName=espalier-managedresource-controller-target-base
// Pods show how far a rollout is.
// +kubebuilder:rbac:groups="",resources=pods,verbs=list;watch,roleName=espalier-managedresource-controller-target-base

// Ledger is the knowledge of the ManagedResource controller about sets.
type Ledger interface {
	// Concluded reports whether the ManagedResource controller of this process has applied the current content of a set and watches its
	// objects. It also returns the resourceVersion of the last write of this process to the set, "" if there was none.
	Concluded(set types.NamespacedName) (resourceVersion string, ok bool)
	// Wrote records that this controller has written to a set.
	Wrote(set types.NamespacedName, resourceVersion string)
	// Recreated lists the objects of a set that were recently deleted and exist again, if this was not reported yet. open is true if the
	// controller is creating a further object again at the moment; the object may turn out not to have been deleted.
	Recreated(set types.NamespacedName, now time.Time) (refs []resourcesv1alpha1.ObjectReference, open bool)
	// Reported removes objects from the result of Recreated, because their deletion was reported.
	Reported(set types.NamespacedName, refs []resourcesv1alpha1.ObjectReference)
	// Responsible reports whether this process is responsible for the class of a set.
	Responsible(mr *resourcesv1alpha1.ManagedResource) bool
}

// Reconciler judges ManagedResources, one at a time. Its fields are set once, before start.
type Reconciler struct {
	// Source reads ManagedResources from a cache, and writes their status.
	Source client.Client
	Target *apply.Target
	// TargetAs reads Events and Pods, which are in no cache, with the rights of a user. Identity chooses the user of a set.
	TargetAs func(user string) (client.Reader, error)
	Identity identity.Rules
	Watcher  *observe.Watcher
	Pods     *observe.Pods
	Whole    *observe.WholeObjects
	Ledger   Ledger
	Verdicts *Verdicts
	Latency  prometheus.Histogram
	Clock    clock.WithTicker
	// Config and Own are the sections of a defaulted configuration: the settings that Gardener has, and others. The check in each SyncPeriod
	// costs no request unless the result depends on something that no watch covers.
	Config config.HealthController
	Own    config.EspalierManagedResource
}

// catchUp is the pause before the next check of a set if the cache does not show the last write of this process yet. Usually an event
// arrives earlier.
const catchUp = 20 * time.Millisecond

// Reconcile implements reconcile.Reconciler.
func (r *Reconciler) Reconcile(ctx context.Context, request ctrl.Request) (ctrl.Result, error) {
	ctx, cancel := context.WithTimeout(ctx, min(r.Config.SyncPeriod.Duration, process.Deadline))
	defer cancel()
	mr := &resourcesv1alpha1.ManagedResource{} // the fields are shared with the cache: replace them, do not change them
	if err := r.Source.Get(ctx, request.NamespacedName, mr, client.UnsafeDisableDeepCopy); err != nil {
		if apierrors.IsNotFound(err) {
			r.Verdicts.forget(request.NamespacedName)
			return ctrl.Result{}, nil
		}
		return ctrl.Result{}, fmt.Errorf("read ManagedResource: %w", err)
	}
	written, concluded := r.Ledger.Concluded(request.NamespacedName)
	if !concluded || !r.Ledger.Responsible(mr) || !due(mr) {
		r.Verdicts.forget(request.NamespacedName)
		missed, _ := r.Ledger.Recreated(request.NamespacedName, r.Clock.Now())
		r.Ledger.Reported(request.NamespacedName, missed) // they must not be reported later
		return ctrl.Result{}, nil
	}
	if observe.Older(mr.ResourceVersion, written) {
		return ctrl.Result{RequeueAfter: r.Verdicts.cacheBehind(request.NamespacedName, r.Clock.Now(), r.Config.SyncPeriod.Duration)}, nil
	}
	r.Verdicts.cacheCurrent(request.NamespacedName)
	if wait := r.Verdicts.pause(request.NamespacedName, r.Clock.Now(), writeInterval); wait > 0 {
		return ctrl.Result{RequeueAfter: wait}, nil
	}
	return r.judge(ctx, request.NamespacedName, mr)
}

// Judge returns the conditions of a set, computed from its status and from data of the watches. Its only requests are those that show
// whether the ServiceAccount of the set may know the result. The result is nil if another request is needed, if such a request fails, if a
// watch has not shown the last write of this process yet, or if the deletion of an object must be reported first: then Reconcile must judge
// the set.
//
// Unless last is true, the result is nil, and early is true, if the conditions are about to change: a watch has not shown the last write of
// this process yet, or the controller of a workload has not processed the workload yet. The caller then calls Judge again soon.
func (r *Reconciler) Judge(ctx context.Context, name types.NamespacedName, mr *resourcesv1alpha1.ManagedResource, last bool) (
	next []corev1beta1.Condition, early bool,
) {
	next, early, hidden := r.judgeByWatches(name, mr)
	if early && !last {
		return nil, true
	}
	if hidden != nil && readAll(ctx, r.concealing(r.Identity.User(mr), mr, hidden)) == nil {
		next = conditions(r.Clock, mr.Status.Conditions, combine(hidden))
	}
	if next != nil && !equality.Semantic.DeepEqual(next, mr.Status.Conditions) {
		r.Verdicts.wrote(name, r.Clock.Now())
	}
	return next, false
}

// judgeByWatches is Judge without requests. If a request must show whether the ServiceAccount of the set may know the findings, next is
// nil, and hidden contains the findings.
func (r *Reconciler) judgeByWatches(name types.NamespacedName, mr *resourcesv1alpha1.ManagedResource) (
	next []corev1beta1.Condition, early bool, hidden []findings,
) {
	missed, open := r.Ledger.Recreated(name, r.Clock.Now())
	if len(missed) > 0 || open || !due(mr) {
		return nil, false, nil
	}
	each, reads := r.known(mr, false)
	found := combine(each)
	switch {
	case len(reads) > 0 || found.explainable():
		return nil, false, nil
	case found.pending:
		return nil, true, nil
	}
	if r.Identity.User(mr) != "" && r.tellsMore(mr, found) {
		return nil, found.unobserved, each
	}
	return conditions(r.Clock, mr.Status.Conditions, found), found.unobserved, nil
}

// atRest reports whether a set already has the conditions that follow from the watches, so that a reconciliation would change nothing.
func (r *Reconciler) atRest(ctx context.Context, name types.NamespacedName) bool {
	mr := &resourcesv1alpha1.ManagedResource{} // the fields are shared with the cache
	if err := r.Source.Get(ctx, name, mr, client.UnsafeDisableDeepCopy); err != nil {
		return false
	}
	written, concluded := r.Ledger.Concluded(name)
	if !concluded || !r.Ledger.Responsible(mr) || observe.Older(mr.ResourceVersion, written) {
		return false
	}
	next, _, _ := r.judgeByWatches(name, mr)
	return next != nil && equality.Semantic.DeepEqual(next, mr.Status.Conditions)
}

// judge determines the health of the set's objects, and writes the conditions if they have changed.
func (r *Reconciler) judge(ctx context.Context, name types.NamespacedName, mr *resourcesv1alpha1.ManagedResource) (ctrl.Result, error) {
	found, err := r.examine(ctx, name, mr)
	if err != nil {
		return ctrl.Result{}, err
	}
	if found.pending {
		return ctrl.Result{RequeueAfter: r.Verdicts.wait(name, r.Clock.Now())}, nil
	}
	r.Verdicts.sawAll(name)
	missed, open := r.Ledger.Recreated(name, r.Clock.Now())
	if open && len(found.faults) == 0 { // the check may have been before the object was created again
		return ctrl.Result{RequeueAfter: catchUp}, nil
	}
	lost := lost(mr, found, missed)
	next := mr.Status
	next.Conditions = conditions(r.Clock, mr.Status.Conditions, found)
	if wait := r.Verdicts.pause(name, r.Clock.Now(), messageInterval); wait > 0 && len(missed) == 0 &&
		onlyMessages(mr.Status.Conditions, next.Conditions) {
		r.Verdicts.postpone(name, r.Clock.Now())
		return ctrl.Result{RequeueAfter: wait}, nil
	}
	wrote, err := status.Write(ctx, r.Source, mr, next)
	if err != nil {
		return ctrl.Result{}, err
	}
	r.Ledger.Reported(name, missed)
	since, waited := r.Verdicts.takeReceived(name)
	if wrote {
		r.Ledger.Wrote(name, mr.ResourceVersion)
		r.Verdicts.wrote(name, r.Clock.Now())
	}
	if wrote && waited {
		r.Latency.Observe(r.Clock.Now().Sub(since).Seconds())
	}
	if lost {
		return ctrl.Result{RequeueAfter: time.Millisecond}, nil // the object exists again: report that too
	}
	return ctrl.Result{RequeueAfter: r.Config.SyncPeriod.Duration}, nil
}

// lost is for the objects in missed, which were deleted and created again before their deletion was reported. If the set was healthy
// before and found contains no faults, lost adds a fault for each of these objects, and returns true. So the condition says for a moment
// that these objects are missing.
func lost(mr *resourcesv1alpha1.ManagedResource, found *findings, missed []resourcesv1alpha1.ObjectReference) bool {
	healthy := corev1beta1.GetCondition(mr.Status.Conditions, resourcesv1alpha1.ResourcesHealthy)
	if len(missed) == 0 || healthy == nil || healthy.Status != corev1beta1.ConditionTrue || len(found.faults) > 0 {
		return false
	}
	for _, ref := range missed {
		found.faults = append(found.faults, fault(ref, rules.Missing, ""))
	}
	return true
}

// conditions returns the conditions of a set, updated with the findings.
func conditions(clk clock.PassiveClock, before []corev1beta1.Condition, found *findings) []corev1beta1.Condition {
	healthy, reason, message := rules.HealthCondition(found.faults)
	health := with(clk, before, resourcesv1alpha1.ResourcesHealthy, healthy, reason, message)
	progressing, reason, message := rules.ProgressCondition(found.rolling)
	return corev1beta1.MergeConditions(before, health, with(clk, before, resourcesv1alpha1.ResourcesProgressing, progressing, reason, message))
}

// onlyMessages reports whether conditions differ in messages, and in nothing that programs read.
func onlyMessages(before, after []corev1beta1.Condition) bool {
	return !equality.Semantic.DeepEqual(before, after) && slices.EqualFunc(before, after, func(a, b corev1beta1.Condition) bool {
		return a.Type == b.Type && a.Status == b.Status && a.Reason == b.Reason && slices.Equal(a.Codes, b.Codes)
	})
}

func with(clk clock.PassiveClock, before []corev1beta1.Condition, kind corev1beta1.ConditionType, holds bool, reason,
	message string,
) corev1beta1.Condition {
	value := corev1beta1.ConditionFalse
	if holds {
		value = corev1beta1.ConditionTrue
	}
	known := corev1beta1.GetOrInitCondition(clk, before, kind)
	if known.Status == value && known.Reason == reason && ageless(known.Message) == ageless(message) {
		return known
	}
	return corev1beta1.UpdatedCondition(clk, known, value, reason, message)
}

// ages matches the ages of Events in the message of a condition.
var ages = regexp.MustCompile(`(?m)^(\* .*? reported )\S+ ago( \(x\d+ over )?\S*(\))?: `)

// ageless removes the parts that change with time, so that a message is written again only if its facts change.
func ageless(message string) string { return ages.ReplaceAllString(message, "$1$2$3: ") }
