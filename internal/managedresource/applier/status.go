package applier

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	ctrl "sigs.k8s.io/controller-runtime"

	corev1beta1 "github.com/espalier-dev/espalier/api/core/v1beta1"
	resourcesv1alpha1 "github.com/espalier-dev/espalier/api/resources/v1alpha1"
	"github.com/espalier-dev/espalier/internal/apply/inventory"
	"github.com/espalier-dev/espalier/internal/managedresource/status"
)

// pendingGrace is how long deletions may take before the condition lists them: most are done sooner, and each list is
// a write.
const pendingGrace = time.Second

// writeStatus writes the changed status, if it differs. A conflict is an error: the set is reconciled again.
func (r *Reconciler) writeStatus(ctx context.Context, p *pass, change func(*resourcesv1alpha1.ManagedResourceStatus)) error {
	next := p.mr.Status.DeepCopy()
	change(next)
	written := *p.mr // the object itself may be the cache's
	changed, err := status.Write(ctx, r.Source, &written, *next)
	if err != nil || !changed {
		return err //nolint:wrapcheck // it says what failed
	}
	p.mr = &written
	r.memory.wrote(p.mr)
	return nil
}

// report writes conditions.
func (r *Reconciler) report(ctx context.Context, p *pass, verdicts ...verdict) error {
	return r.writeStatus(ctx, p, func(status *resourcesv1alpha1.ManagedResourceStatus) {
		status.Conditions = with(r.Clock, status.Conditions, verdicts...)
	})
}

// announce writes, before the first object of a changed set is touched, that the set is in work and every object that
// may exist from now on: a process that takes over finds there what to clean up.
//
// What the conditions of health and progress say of former content, or of an ignored set, does not outlast the result: see
// set.outdated.
//
// A set that was applied before and whose references stay is not announced, since its status lists every object already. A
// process that takes over in the middle sees that the apply was not completed: the checksum or the generation in the status
// differ from those of the set. If the Secrets have the former content again, it sees that objects were written later than
// the status (facts.later).
func (r *Reconciler) announce(ctx context.Context, p *pass) error {
	s, status := p.set, p.mr.Status
	if s.references == nil {
		return nil
	}
	content := fmt.Sprintf("%d %s %x", s.generation, s.checksum, referencesDigest(s.references))
	if status.SecretsDataChecksum != nil && inventory.SameReferences(s.references, status.Resources) {
		if !p.recorded() {
			r.memory.resume(p.name) // until the result is written, so that the status is not written in between
		}
		if (!p.recorded() || judgedAsIgnored(status.Conditions)) && s.announced != content {
			s.outdated, s.announced = true, content
		}
		return nil
	}
	union := inUse(status.Resources, s.references)
	if s.announced == content && inventory.SameReferences(union, status.Resources) {
		return nil
	}
	r.memory.resume(p.name)
	err := r.writeStatus(ctx, p, func(status *resourcesv1alpha1.ManagedResourceStatus) {
		status.Conditions = with(r.Clock, status.Conditions, invalidated(status.Conditions)...)
		status.Resources = union
	})
	if err == nil {
		s.announced = content
		return nil
	}
	if apierrors.IsConflict(err) {
		return err
	}
	message := fmt.Sprintf("could not record what the set consists of: %v", err)
	r.Events.failed(p, nil, resourcesv1alpha1.ConditionApplyFailed, message)
	return errors.Join(err, r.report(ctx, p, applied(corev1beta1.ConditionFalse, resourcesv1alpha1.ConditionApplyFailed, message)))
}

// inUse joins the objects that a set had with those that it gets. An object that stays keeps the labels and annotations
// that it had in its entry as well: only from there is known, after a restart, which of them are ours to remove.
func inUse(had, gets []resourcesv1alpha1.ObjectReference) []resourcesv1alpha1.ObjectReference {
	before := make(map[inventory.Key]resourcesv1alpha1.ObjectReference, len(had))
	for _, ref := range had {
		before[inventory.RefKey(ref)] = ref
	}
	joined := inventory.Union(had, gets)
	for i, ref := range joined {
		joined[i].Labels = overlay(before[inventory.RefKey(ref)].Labels, ref.Labels)
		joined[i].Annotations = overlay(before[inventory.RefKey(ref)].Annotations, ref.Annotations)
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

// stillInUse leaves of the announced objects those that the set wants: the others are gone, although the apply failed.
func stillInUse(announced, wanted []resourcesv1alpha1.ObjectReference) []resourcesv1alpha1.ObjectReference {
	keys := make(map[inventory.Key]struct{}, len(wanted))
	for _, ref := range wanted {
		keys[inventory.RefKey(ref)] = struct{}{}
	}
	return slices.DeleteFunc(slices.Clone(announced), func(ref resourcesv1alpha1.ObjectReference) bool {
		_, found := keys[inventory.RefKey(ref)]
		return !found
	})
}

// list writes the references of the set into its status. If not all objects are applied, those of objects that are still
// there stay.
func (s *set) list(status *resourcesv1alpha1.ManagedResourceStatus, whole bool) {
	switch {
	case s.references == nil:
	case whole:
		status.Resources = s.references
	default:
		status.Resources = stillInUse(status.Resources, s.references)
	}
}

// conclude writes what became of the set and says when to look at it again.
func (r *Reconciler) conclude(ctx context.Context, p *pass, result *outcome) (ctrl.Result, error) {
	if ctx.Err() != nil { // the process ends: what was cut off says nothing about the set
		return ctrl.Result{}, fmt.Errorf("stop: %w", context.Cause(ctx))
	}
	s := p.set
	if slices.ContainsFunc(result.failures, func(f failure) bool { return errors.Is(f.err, errSecretChanged) }) {
		s.loaded = false
		return ctrl.Result{RequeueAfter: settlePause}, nil
	}
	s.watched = result.unwatched == 0
	judgement, failure := r.judge(p, result)
	whole := failure == nil
	if whole && result.postponed {
		judgement.code = codePostponed
	}
	r.Metrics.concluded(p.name, counts{applied: len(s.items) - len(result.failures), failed: len(result.failures) - result.lost, claimed: result.lost, unwatched: result.unwatched})
	if s.settled && whole && p.recorded() && says(p.mr.Status.Conditions, judgement) {
		if err := r.recordOnlyID(ctx, p); err != nil {
			return ctrl.Result{}, err
		}
		r.tell(p, false)
		s.rest(p.mr.ResourceVersion, result)
		return ctrl.Result{RequeueAfter: r.after(result)}, nil
	}
	err := r.writeStatus(ctx, p, func(status *resourcesv1alpha1.ManagedResourceStatus) {
		status.Conditions = with(r.Clock, status.Conditions, judgement)
		s.list(status, whole)
		if whole {
			status.SecretsDataChecksum = &s.checksum
			status.ObservedGeneration = s.generation
		}
		if judged := whole && r.judgeHealth(p, status); s.outdated && !judged {
			status.Conditions = with(r.Clock, status.Conditions, checksPending()...)
		}
		status.Conditions = with(r.Clock, status.Conditions, unrestored(status.Conditions, s.items, result.missing)...)
	})
	if err != nil {
		return ctrl.Result{}, errors.Join(failure, err)
	}
	s.outdated = false
	if whole {
		s.settled, s.reported, s.references, s.announced = true, referencesDigest(p.mr.Status.Resources), nil, ""
		r.memory.want(p.name, wantedKeys(s.items, p.mr.Status.Resources))
		r.tell(p, true)
		if err := r.recordOnlyID(ctx, p); err != nil {
			return ctrl.Result{}, err
		}
		s.rest(p.mr.ResourceVersion, result)
	}
	if failure != nil {
		return ctrl.Result{}, failure
	}
	return ctrl.Result{RequeueAfter: r.after(result)}, nil
}

// judgeHealth adds health and progress to the status of a set that is applied, and reports whether it could.
func (r *Reconciler) judgeHealth(p *pass, status *resourcesv1alpha1.ManagedResourceStatus) bool {
	mr := *p.mr
	mr.Status = *status
	conditions, ok := r.Judge(p.name, &mr)
	if ok {
		status.Conditions = conditions
	}
	return ok
}

// tell lets the set be judged, if that is the first time or something was written.
func (r *Reconciler) tell(p *pass, wrote bool) {
	if r.memory.conclude(p.name) || wrote {
		r.Concluded(p.name)
	}
}

// judge turns the outcome into the condition, and into an error if trying again soon may help.
func (r *Reconciler) judge(p *pass, result *outcome) (verdict, error) {
	if len(result.failures) == 0 {
		if len(p.set.faults) > 0 {
			message := decodingMessage(p.set.faults)
			r.Events.failed(p, nil, resourcesv1alpha1.ConditionDecodingFailed, message)
			return applied(corev1beta1.ConditionFalse, resourcesv1alpha1.ConditionDecodingFailed, message), nil
		}
		r.Events.recovered(p)
		return applied(corev1beta1.ConditionTrue, resourcesv1alpha1.ConditionApplySucceeded, resourcesv1alpha1.MessageApplySucceeded), nil
	}
	message := failureMessage(p.name.Namespace, result.failures, p.set.items)
	onlyClaims := !slices.ContainsFunc(result.failures, func(f failure) bool {
		var lost *claimedError
		return !errors.As(f.err, &lost)
	})
	if onlyClaims && len(p.set.faults) == 0 {
		held := applied(corev1beta1.ConditionFalse, resourcesv1alpha1.ConditionApplyFailed, "held by another ManagedResource: "+message)
		held.code = codeClaimed
		return held, nil
	}
	r.Events.failed(p, result.failures[0].item.reference(), resourcesv1alpha1.ConditionApplyFailed, message)
	return applied(corev1beta1.ConditionFalse, resourcesv1alpha1.ConditionApplyFailed, message),
		fmt.Errorf("could not apply all new resources: %s", message)
}

// after says when the set is looked at again without an event.
func (r *Reconciler) after(result *outcome) time.Duration {
	if result.newKinds {
		return settlePause
	}
	after := r.SyncPeriod
	if !result.again.IsZero() {
		after = min(after, max(result.again.Sub(r.Clock.Now()), settlePause))
	}
	return after
}

// reportPending lists deletions that take their time.
func (r *Reconciler) reportPending(ctx context.Context, p *pass, open []pending, again time.Time) (ctrl.Result, error) {
	since := r.Clock.Now().Sub(p.set.removal.began)
	failed := slices.ContainsFunc(open, func(each pending) bool { return each.err != nil })
	if since < pendingGrace && !failed {
		return ctrl.Result{RequeueAfter: pendingGrace - since}, nil
	}
	r.explain(ctx, open)
	wait := max(again.Sub(r.Clock.Now()), settlePause)
	known := corev1beta1.GetCondition(p.mr.Status.Conditions, resourcesv1alpha1.ResourcesApplied)
	facts := pendingFacts(open)
	if facts == p.set.removal.told && known != nil && known.Reason == resourcesv1alpha1.ConditionDeletionPending {
		return ctrl.Result{RequeueAfter: wait}, nil
	}
	message := pendingMessage(open, r.Clock.Now())
	if failed {
		r.Events.failed(p, &open[0].ref.ObjectReference, resourcesv1alpha1.ConditionDeletionPending, message)
	}
	if err := r.report(ctx, p, applied(corev1beta1.ConditionProgressing, resourcesv1alpha1.ConditionDeletionPending, message)); err != nil {
		return ctrl.Result{}, err
	}
	p.set.removal.told = facts
	return ctrl.Result{RequeueAfter: wait}, nil
}
