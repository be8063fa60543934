package applier

import (
	"context"

	ctrl "sigs.k8s.io/controller-runtime"

	corev1beta1 "github.com/espalier-dev/espalier/api/core/v1beta1"
	resourcesv1alpha1 "github.com/espalier-dev/espalier/api/resources/v1alpha1"
	"github.com/espalier-dev/espalier/internal/managedresource/status"
)

// mayWait reports whether a change of a set may have to wait for other sets or for an approval. For such a set, the controller keeps the
// former content, which it applied last, in its memory, because after a change the Secrets no longer contain this content.
func mayWait(mr *resourcesv1alpha1.ManagedResource) bool {
	_, needsApproval := mr.Annotations[resourcesv1alpha1.Approved]
	return needsApproval || mr.Annotations[resourcesv1alpha1.DependsOn] != ""
}

// restoreFormer repairs the objects of the content that was applied last, while the present content is not applied. After a restart, the
// process does not know the former content, and leaves the objects as they are. fault says which objects could not be repaired, "" if
// there are none.
func (r *Reconciler) restoreFormer(ctx context.Context, p *pass) (result *outcome, fault string) {
	former := p.set.Former
	if former == nil || !isRecorded(p.mr, former.Content) {
		return &outcome{}, ""
	}
	bounded, cancel := r.limit(ctx)
	defer cancel()
	restoring := *p
	restoring.set, restoring.settings, restoring.manifests = p.set.Restoring(), former.Settings, former.Manifests.Undecoded()
	restoring.index, restoring.references = nil, nil
	result = r.apply(bounded, &restoring)
	p.set.Restored(restoring.set)
	result.newKinds = false // the present content is decoded with the kinds that the target serves now
	if len(result.failures) > 0 && ctx.Err() == nil {
		fault = "objects of the content that was applied last cannot be repaired: " +
			failureMessage(p.name.Namespace, result.failures, restoring.set.Objects)
		r.Events.failed(p, result.failures[0].item.Reference(), resourcesv1alpha1.ConditionApplyFailed, fault)
	}
	return result, fault
}

// awaitDependencies reports that a changed set is not applied yet, because it waits for other sets. If the former content of the set was
// applied completely, the controller repairs the objects of the former content, and the health controller judges them. An event of one of
// the other sets causes the next reconciliation, which begins after a SyncPeriod at the latest.
func (r *Reconciler) awaitDependencies(ctx context.Context, p *pass, unmet string) (ctrl.Result, error) {
	p.set.Announced = ""
	waiting := applied(corev1beta1.ConditionProgressing, resourcesv1alpha1.ConditionDependenciesPending, unmet)
	if !isComplete(p.mr.Status.Conditions) {
		r.Memory.MarkInProgress(p.name)
		return ctrl.Result{RequeueAfter: r.Config.SyncPeriod.Duration}, r.report(ctx, p, waiting)
	}
	r.observeOnly(ctx, p)
	result, fault := r.restoreFormer(ctx, p)
	if fault != "" {
		waiting.Message += "; " + fault
	}
	waiting.Codes = []corev1beta1.ErrorCode{status.CodeContentKept}
	if result.postponed || p.set.Former == nil && hasCode(p.mr.Status.Conditions, codePostponed) {
		waiting.Codes = append(waiting.Codes, codePostponed)
	}
	if former := p.set.Former; former != nil && isDrifted(former.Objects) || former == nil && hasCode(p.mr.Status.Conditions, codeDrifted) {
		waiting.Codes = append(waiting.Codes, codeDrifted)
	}
	return ctrl.Result{RequeueAfter: r.requeueAfter(result)}, r.report(ctx, p, waiting)
}

// planUnapproved publishes the plan of a set whose present content is not approved. The controller repairs the objects of the content that
// was applied before, and the health controller judges them.
func (r *Reconciler) planUnapproved(ctx context.Context, p *pass) (ctrl.Result, error) {
	r.observeOnly(ctx, p)
	restored, _ := r.restoreFormer(ctx, p)
	result, err := r.planSet(ctx, p.mr)
	if err == nil {
		result.RequeueAfter = min(result.RequeueAfter, r.requeueAfter(restored))
	}
	return result, err
}
