// Package health keeps the conditions ResourcesHealthy and ResourcesProgressing of ManagedResources: what the
// specification calls the health and the progressing controller.
//
// It watches ManagedResources in the source cluster, and hears from the watches on the target when an object came, went
// or fares differently. It writes the two conditions, both in one request, and nothing else. Objects are judged when
// the watches see them, so a set is judged without a request; it reads live only what no watch covers, an object that
// seems to be missing, the Events of a Service that is unhealthy, and the pods of a Deployment that has more or fewer
// of them than it asks for.
//
// The conditions of a set that changes quickly are written at once the first time, and then at most once in writeInterval.
// The ManagedResource controller writes them together with the result of an apply, if Judge can tell them without a request.
//
// A set is judged only after the ManagedResource controller of this process has looked at it, so that the watches that
// it needs run and know what was written last. If the process dies, the next one judges every set again, which writes
// nothing where nothing has changed.
package health

import (
	"context"
	"fmt"
	"regexp"
	"time"

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
	rules "github.com/espalier-dev/espalier/internal/health"
	"github.com/espalier-dev/espalier/internal/managedresource/status"
)

// +kubebuilder:rbac:groups=resources.gardener.cloud,resources=managedresources,verbs=get;list;watch,roleName=espalier-managedresource-controller-source
// +kubebuilder:rbac:groups=resources.gardener.cloud,resources=managedresources/status,verbs=patch,roleName=espalier-managedresource-controller-source
// +kubebuilder:rbac:groups="",resources=events,verbs=list,roleName=espalier-managedresource-controller-target-base
// +kubebuilder:rbac:groups="",resources=pods,verbs=list;watch,roleName=espalier-managedresource-controller-target-base

// Ledger is what the ManagedResource controller knows of sets.
type Ledger interface {
	// Concluded tells whether a set's objects are as the set wants them and observed, and at which resourceVersion the
	// set was written last, "" if it never was.
	Concluded(set types.NamespacedName) (resourceVersion string, ok bool)
	// Wrote tells that this controller has written to a set.
	Wrote(set types.NamespacedName, resourceVersion string)
	// Recreated lists the objects of a set that had been deleted of late and are there again, as far as that was not
	// reported. Open tells that one more is being made again right now, and may turn out never to have been deleted.
	Recreated(set types.NamespacedName, now time.Time) (refs []resourcesv1alpha1.ObjectReference, open bool)
	// Reported drops objects from that list.
	Reported(set types.NamespacedName, refs []resourcesv1alpha1.ObjectReference)
	// Responsible tells whether a set is this process's to judge.
	Responsible(mr *resourcesv1alpha1.ManagedResource) bool
}

// Reconciler judges one ManagedResource after the other. Its fields are set once, before start.
type Reconciler struct {
	// Source reads from caches and writes.
	Source client.Client
	Target *apply.Target
	// TargetLive reads Events and pods, which no cache holds.
	TargetLive client.Reader
	Watcher    *observe.Watcher
	Pods       *observe.Pods
	Whole      *observe.Whole
	Ledger     Ledger
	Verdicts   *Verdicts
	Metrics    *Metrics
	Clock      clock.PassiveClock
	// Kstatus tells whether objects of kinds without a rule are judged by their status, unless a set says otherwise.
	Kstatus bool
	// SyncPeriod is how often a set is judged again without an event, which costs no request unless it depends on something
	// that no watch tells about.
	SyncPeriod time.Duration
}

const (
	// deadlineCap bounds one run.
	deadlineCap = 3 * time.Minute
	// catchUp is how soon a set is looked at again when the caches are behind our own writes. Usually an event is faster.
	catchUp = 20 * time.Millisecond
)

// Reconcile implements reconcile.Reconciler.
func (r *Reconciler) Reconcile(ctx context.Context, request ctrl.Request) (ctrl.Result, error) {
	ctx, cancel := context.WithTimeout(ctx, min(r.SyncPeriod, deadlineCap))
	defer cancel()
	mr := &resourcesv1alpha1.ManagedResource{} // its fields are the cache's: they are replaced, not changed
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
		r.Ledger.Reported(request.NamespacedName, missed) // later it is no news
		return ctrl.Result{}, nil
	}
	if observe.Older(mr.ResourceVersion, written) {
		return ctrl.Result{RequeueAfter: catchUp}, nil
	}
	if wait := r.Verdicts.pause(request.NamespacedName, r.Clock.Now()); wait > 0 {
		return ctrl.Result{RequeueAfter: wait}, nil
	}
	return r.judge(ctx, request.NamespacedName, mr)
}

// Judge returns the conditions of a set as its status and what the watches know about its objects make them, without a
// request. It returns false if a request is needed for that, if a watch has not caught up with our own writes, or if the
// deletion of an object has to be reported first: then the set is to be judged by Reconcile.
func (r *Reconciler) Judge(name types.NamespacedName, mr *resourcesv1alpha1.ManagedResource) ([]corev1beta1.Condition, bool) {
	missed, open := r.Ledger.Recreated(name, r.Clock.Now())
	if len(missed) > 0 || open || !due(mr) {
		return nil, false
	}
	each, reads := r.known(mr, false)
	found := combine(each)
	if len(reads) > 0 || found.pending || found.explainable() {
		return nil, false
	}
	next := conditions(r.Clock, mr.Status.Conditions, found)
	if !equality.Semantic.DeepEqual(next, mr.Status.Conditions) {
		r.Verdicts.wrote(name, r.Clock.Now())
	}
	return next, true
}

// judge finds out how the set's objects fare, and writes that if it is news.
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
	if open && len(found.faults) == 0 { // found well by a look that may be older or newer than what is being made
		return ctrl.Result{RequeueAfter: catchUp}, nil
	}
	lost := lost(mr, found, missed)
	next := mr.Status
	next.Conditions = conditions(r.Clock, mr.Status.Conditions, found)
	wrote, err := status.Write(ctx, r.Source, mr, next)
	if err != nil {
		return ctrl.Result{}, err //nolint:wrapcheck // it says what failed
	}
	r.Ledger.Reported(name, missed)
	since, waited := r.Verdicts.told(name)
	if wrote {
		r.Ledger.Wrote(name, mr.ResourceVersion)
		r.Verdicts.wrote(name, r.Clock.Now())
	}
	if wrote && waited {
		r.Metrics.latency.Observe(r.Clock.Now().Sub(since).Seconds())
	}
	if lost {
		return ctrl.Result{RequeueAfter: time.Millisecond}, nil // it is there again: say that too
	}
	return ctrl.Result{RequeueAfter: r.SyncPeriod}, nil
}

// lost adds objects that were deleted, and recreated before anybody could say so. What has happened is reported, even
// though it lasted but for a moment.
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

// conditions returns the conditions as they have to be.
func conditions(clk clock.PassiveClock, before []corev1beta1.Condition, found *findings) []corev1beta1.Condition {
	healthy, reason, message := rules.HealthCondition(found.faults)
	health := with(clk, before, resourcesv1alpha1.ResourcesHealthy, healthy, reason, message)
	progressing, reason, message := rules.ProgressCondition(found.rolling)
	return corev1beta1.MergeConditions(before, health, with(clk, before, resourcesv1alpha1.ResourcesProgressing, progressing, reason, message))
}

func with(clk clock.PassiveClock, before []corev1beta1.Condition, kind corev1beta1.ConditionType, holds bool, reason, message string) corev1beta1.Condition {
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

// ages are the parts of a block of Events that change by themselves.
var ages = regexp.MustCompile(`(?m)^(\* .*? reported )\S+ ago( \(x\d+ over )?\S*(\))?: `)

// ageless leaves out what changes by itself, so that a message is written again only when its facts change.
func ageless(message string) string { return ages.ReplaceAllString(message, "$1$2$3: ") }
