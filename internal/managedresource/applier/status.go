package applier

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/utils/ptr"
	ctrl "sigs.k8s.io/controller-runtime"

	corev1beta1 "github.com/espalier-dev/espalier/api/core/v1beta1"
	resourcesv1alpha1 "github.com/espalier-dev/espalier/api/resources/v1alpha1"
	"github.com/espalier-dev/espalier/internal/apply/inventory"
	"github.com/espalier-dev/espalier/internal/managedresource/desired"
	"github.com/espalier-dev/espalier/internal/managedresource/prune"
	"github.com/espalier-dev/espalier/internal/managedresource/state"
	"github.com/espalier-dev/espalier/internal/managedresource/status"
)

// pendingGrace is how long deletions may take before the condition lists them, unless a deletion has failed. The grace period avoids
// writes of the status, because most deletions are complete sooner.
const pendingGrace = time.Second

// writeStatus replaces the status, if it differs. A conflict is an error, after which the set is reconciled again.
func (r *Reconciler) writeStatus(ctx context.Context, p *pass, next *resourcesv1alpha1.ManagedResourceStatus) error {
	written := *p.mr // a copy, because the object may be part of the cache
	changed, err := status.Write(ctx, r.Source, &written, *next)
	if err != nil || !changed {
		return err
	}
	p.mr = &written
	r.Memory.RecordWrite(p.mr)
	return nil
}

// report writes conditions into the status of the set.
func (r *Reconciler) report(ctx context.Context, p *pass, verdicts ...corev1beta1.Condition) error {
	next := p.mr.Status.DeepCopy()
	next.Conditions = withVerdicts(r.Clock, next.Conditions, verdicts...)
	return r.writeStatus(ctx, p, next)
}

// fail reports that a set was not applied, by an Event and a condition. It returns the error, joined with the error of the report.
func (r *Reconciler) fail(ctx context.Context, p *pass, reason, message string, err error) error {
	r.Events.failed(p, nil, reason, message)
	return errors.Join(err, r.report(ctx, p, applied(corev1beta1.ConditionFalse, reason, message)))
}

// announce prepares the status of a changed set before the controller writes the first object of the set. It writes that the apply is in
// progress, and lists all objects that may exist from now on. If the process dies, the next process finds in this list which objects it
// must delete.
//
// The conditions of health and progress may describe the previous content of the set, or say that the set was ignored. The controller
// replaces them when it writes the result: see state.Set.Outdated.
//
// If a set was applied before and its references have not changed, announce writes nothing, because the status lists every object already.
// If the process dies, the next process sees that the apply was not completed: the checksum or the generation in the status differs from
// the checksum or the generation of the set. If the Secrets have their previous content again by then, the next process sees that objects
// were written later than the status (engine.Facts.WrittenLater).
func (r *Reconciler) announce(ctx context.Context, p *pass) error {
	s, status := p.set, p.mr.Status
	if s.References == nil {
		return nil
	}
	content := fmt.Sprintf("%d %s %x", s.Content.Generation, s.Content.Checksum, referencesDigest(s.References))
	if status.SecretsDataChecksum != nil && inventory.SameReferences(s.References, status.Resources) {
		if !p.recorded() {
			r.Memory.MarkInProgress(p.name) // so that the health controller does not write the status before the result is written
		}
		if (!p.recorded() || judgedAsIgnored(status.Conditions)) && s.Announced != content {
			s.Outdated, s.Announced = true, content
		}
		return nil
	}
	union := inUse(status.Resources, s.References, inventory.NewEquivalences(p.mr.Spec.Equivalences))
	if s.Announced == content && inventory.SameReferences(union, status.Resources) {
		return nil
	}
	r.Memory.MarkInProgress(p.name)
	next := status.DeepCopy()
	verdicts := changedVerdicts(next.Conditions)
	if s.Suspension != nil {
		verdicts[len(verdicts)-1].Codes = []corev1beta1.ErrorCode{codeSuspended}
	}
	next.Conditions = withVerdicts(r.Clock, next.Conditions, verdicts...)
	next.Resources = union
	err := r.writeStatus(ctx, p, next)
	if err == nil {
		s.Announced = content
		return nil
	}
	if apierrors.IsConflict(err) {
		return err
	}
	return r.fail(ctx, p, resourcesv1alpha1.ConditionApplyFailed, fmt.Sprintf("could not record what the set consists of: %v", err), err)
}

// inUse returns the union of the objects that a set had and the objects that it wants. If both lists contain an object, or objects of
// equivalent kinds, the entry in the result has the labels and annotations of both entries. After a restart or a failure, only this entry
// shows which labels and annotations the controller must remove.
func inUse(had, wanted []resourcesv1alpha1.ObjectReference, equivalences inventory.Equivalences) []resourcesv1alpha1.ObjectReference {
	before := inventory.NewIndex(had, equivalences)
	joined := inventory.Union(had, wanted)
	for i, ref := range joined {
		if previous, found := before.Lookup(inventory.RefKey(ref)); found {
			joined[i].Labels = overlay(previous.Labels, ref.Labels)
			joined[i].Annotations = overlay(previous.Annotations, ref.Annotations)
		}
	}
	return joined
}

func overlay(below, above map[string]string) map[string]string {
	if len(below) == 0 {
		return above
	}
	joined := maps.Clone(below)
	maps.Copy(joined, above)
	return joined
}

// stillInUse returns the announced objects that the set wants or withholds. The controller has deleted the other announced objects before
// it applied the objects of the set.
func stillInUse(announced, wanted []resourcesv1alpha1.ObjectReference, withheld prune.Withheld) []resourcesv1alpha1.ObjectReference {
	listed := desired.StatusByKey(wanted)
	return slices.DeleteFunc(slices.Clone(announced), func(ref resourcesv1alpha1.ObjectReference) bool {
		_, found := listed[inventory.RefKey(ref)]
		return !found && !withheld.Has(ref)
	})
}

// listReferences writes the references of the set into its status. If whole is false, because not all objects were applied, it keeps the
// announced labels and annotations of the references.
func listReferences(s *state.Set, status *resourcesv1alpha1.ManagedResourceStatus, whole bool) {
	switch {
	case s.References == nil:
	case whole:
		status.Resources = s.References
	default:
		status.Resources = stillInUse(status.Resources, s.References, s.Withheld)
	}
}

// conclude writes the result of the apply, and returns when to reconcile the set again.
func (r *Reconciler) conclude(ctx context.Context, p *pass, result *outcome) (ctrl.Result, error) {
	if ctx.Err() != nil { // the process ends, and the result is incomplete
		return ctrl.Result{}, fmt.Errorf("stop: %w", context.Cause(ctx))
	}
	s := p.set
	if slices.ContainsFunc(result.failures, func(f failure) bool { return errors.Is(f.err, desired.ErrChanged) }) {
		s.Loaded = false
		return ctrl.Result{RequeueAfter: settlePause}, nil
	}
	s.Watched = result.unwatched == 0
	judgement, failure := judge(p.name.Namespace, s.Objects, s.Content.Faults, result)
	judgement = suspended(judgement, s.Suspension, len(s.Content.Faults) > 0 && isSuspended(p.mr.Status.Conditions))
	r.Events.concluded(p, judgement, failure, result)
	whole := failure == nil
	r.Metrics.updateObjects(p.name, counts{
		applied: len(s.Objects) - len(result.failures), failed: len(result.failures) - result.claimed,
		claimed: result.claimed, unwatched: result.unwatched,
	})
	if s.Settled && whole && p.recorded() && hasVerdict(p.mr.Status.Conditions, judgement) {
		if err := errors.Join(r.recordOnlyClusterID(ctx, p), r.takeConfirmation(ctx, p)); err != nil {
			return ctrl.Result{}, err
		}
		r.requestJudgement(p, false)
		markInSync(s, p.mr.ResourceVersion, result)
		return ctrl.Result{RequeueAfter: r.requeueAfter(result)}, nil
	}
	if whole && !s.Withheld.IsEmpty() { // the new objects, because of which old ones stayed, are applied
		return ctrl.Result{RequeueAfter: settlePause}, nil
	}
	next, pause := r.resultStatus(ctx, p, judgement, result, whole)
	if pause > 0 {
		return ctrl.Result{RequeueAfter: pause, Priority: ptr.To(resultPriority)}, nil
	}
	if err := r.writeStatus(ctx, p, next); err != nil {
		return ctrl.Result{}, errors.Join(failure, err)
	}
	s.Outdated, s.PostponedSince, s.Pruned = false, time.Time{}, false
	if whole {
		s.MarkListed(referencesDigest(p.mr.Status.Resources))
		r.Memory.Subscribe(p.name, subscribedKeys(s.Content.Items, p.mr.Status.Resources))
		r.requestJudgement(p, true)
		if err := errors.Join(r.recordOnlyClusterID(ctx, p), r.takeConfirmation(ctx, p)); err != nil {
			return ctrl.Result{}, err
		}
		markInSync(s, p.mr.ResourceVersion, result)
	}
	if failure != nil { // pruning is complete nevertheless
		return ctrl.Result{}, errors.Join(failure, r.takeConfirmation(ctx, p))
	}
	return ctrl.Result{RequeueAfter: r.requeueAfter(result)}, nil
}

// resultStatus returns the status with the result of the apply. If the health of the set is about to change, it instead returns a pause,
// after which the set must be reconciled again: so a set whose workload becomes ready at once needs one write of the status, not two.
func (r *Reconciler) resultStatus(ctx context.Context, p *pass, judgement corev1beta1.Condition, result *outcome, whole bool) (
	status *resourcesv1alpha1.ManagedResourceStatus, pause time.Duration,
) {
	s := p.set
	status = p.mr.Status.DeepCopy()
	if whole && s.Suspension == nil && len(s.Content.Faults) == 0 {
		status.Conditions = resumed(status.Conditions)
	}
	status.Conditions = withVerdicts(r.Clock, status.Conditions, judgement)
	listReferences(s, status, whole)
	judged := false
	if whole {
		status.SecretsDataChecksum = &s.Content.Checksum
		status.ObservedGeneration = s.Content.Generation
		mr := *p.mr
		mr.Status = *status
		pause = r.pauseOfResult(p)
		conditions, early := r.Judge(ctx, p.name, &mr, pause == 0)
		if early {
			s.Pruned = true
			return nil, pause
		}
		if judged = conditions != nil; judged {
			status.Conditions = conditions
		}
	}
	if s.Outdated && !judged {
		status.Conditions = withVerdicts(r.Clock, status.Conditions, checksPending()...)
	}
	status.Conditions = withVerdicts(r.Clock, status.Conditions, missingVerdicts(status.Conditions, s.Objects, result.missing)...)
	return status, 0
}

// pauseOfResult returns how long the result may be postponed; zero means that the result must be written now. It also records since when
// the result is postponed. If the content was applied before, the result is never postponed, because the apply wrote nothing or only
// repaired drift.
func (r *Reconciler) pauseOfResult(p *pass) time.Duration {
	s, now := p.set, r.Clock.Now()
	if p.recorded() {
		return 0
	}
	if s.PostponedSince.IsZero() {
		s.PostponedSince = now
	}
	passed := now.Sub(s.PostponedSince)
	if passed < 0 || passed >= resultTimeout { // less than 0: the clock was set back
		return 0
	}
	return min(max(passed, resultPause), resultTimeout-passed)
}

// requestJudgement requests that the health controller judges the set, if the set has changed since the last request or if something was
// written.
func (r *Reconciler) requestJudgement(p *pass, wrote bool) {
	if r.Memory.MarkConcluded(p.name) || wrote {
		r.Concluded(p.name)
	}
}

// requeueAfter returns the time after which the set is reconciled again without an event.
func (r *Reconciler) requeueAfter(result *outcome) time.Duration {
	if result.newKinds {
		return settlePause
	}
	after := r.Config.SyncPeriod.Duration
	if !result.nextCheck.IsZero() {
		after = min(after, max(result.nextCheck.Sub(r.Clock.Now()), settlePause))
	}
	return after
}

// reportPending writes a condition that lists pending deletions, if they take longer than pendingGrace or have failed.
func (r *Reconciler) reportPending(ctx context.Context, p *pass, result prune.Result) (ctrl.Result, error) {
	open, progress := result.Pending, p.set.Deletion
	since := max(0, r.Clock.Now().Sub(progress.Began)) // the clock may be set back
	failed := prune.Failed(open)
	if since < pendingGrace && !failed {
		return ctrl.Result{RequeueAfter: pendingGrace - since}, nil
	}
	live, err := r.TargetAs(p.user)
	if err != nil {
		return ctrl.Result{}, err
	}
	prune.AddEvents(ctx, live, open, r.Clock.Now())
	wait := min(max(result.NextCheck.Sub(r.Clock.Now()), settlePause), r.DeletionPoll)
	known := corev1beta1.GetCondition(p.mr.Status.Conditions, resourcesv1alpha1.ResourcesApplied)
	facts := prune.Facts(open)
	if progress.Reported == facts && known != nil && known.Reason == resourcesv1alpha1.ConditionDeletionPending {
		return ctrl.Result{RequeueAfter: wait}, nil
	}
	message := prune.Message(open, r.Clock.Now())
	if failed {
		r.Events.failed(p, open[0].Reference(), resourcesv1alpha1.ConditionDeletionPending, message)
	}
	if err := r.report(ctx, p, applied(corev1beta1.ConditionProgressing, resourcesv1alpha1.ConditionDeletionPending, message)); err != nil {
		return ctrl.Result{}, err
	}
	progress.Reported = facts
	return ctrl.Result{RequeueAfter: wait}, nil
}
