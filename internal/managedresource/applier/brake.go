package applier

import (
	"context"
	"fmt"
	"slices"

	"k8s.io/utils/ptr"
	ctrl "sigs.k8s.io/controller-runtime"

	corev1beta1 "github.com/espalier-dev/espalier/api/core/v1beta1"
	resourcesv1alpha1 "github.com/espalier-dev/espalier/api/resources/v1alpha1"
	"github.com/espalier-dev/espalier/internal/apply/inventory"
	"github.com/espalier-dev/espalier/internal/conflict"
	"github.com/espalier-dev/espalier/internal/managedresource/prune"
)

// codeSuspended marks the condition ResourcesApplied of a set while the pruning of the set is suspended, whatever the reason of the
// condition is. During this time, the status also lists objects that the sources do not contain, and new objects. So the controller no
// longer knows the share of the objects that left the set.
const codeSuspended corev1beta1.ErrorCode = "ESPALIER_PRUNING_SUSPENDED"

// brake decides whether the objects that left the set stay until the user confirms their deletion. If they stay, the status continues to
// list them. The controller decides before it announces the new objects in the status, and once for each content of the set. It decides
// about a suspension again when suspensionDue returns true.
func (r *Reconciler) brake(ctx context.Context, p *pass) error {
	s := p.set
	if r.Own.DeletionLimit == nil || s.Settled || s.Braked {
		return nil
	}
	suspension, err := r.suspension(ctx, p, p.obsolete(), prune.Brake.Change)
	if err != nil {
		return err
	}
	s.Suspension, s.Braked, s.SuspendedAt = suspension, true, p.now
	if s.Suspension != nil {
		s.References = inventory.Union(p.obsolete(), s.References)
		inventory.SortReferences(s.References)
	}
	return nil
}

// suspensionDue reports whether the controller must decide again about a suspension. The controller must decide again when the user has
// confirmed the deletion or requests a reconciliation, when an audit is due, and when a SyncPeriod has passed or the clock was set back.
// In a SyncPeriod, other clients may have deleted the objects of a CustomResourceDefinition.
func (r *Reconciler) suspensionDue(p *pass) bool {
	s := p.set
	if s.Suspension == nil {
		return false
	}
	passed := p.now.Sub(s.SuspendedAt)
	return p.mr.Annotations[resourcesv1alpha1.ConfirmDeletion] == s.Suspension.Confirmation || s.AuditOwed ||
		passed < 0 || passed >= r.Config.SyncPeriod.Duration // less than 0: the clock was set back
}

// suspension returns why the deletion of objects is suspended, nil if it is not. It fails if that cannot be decided at present.
func (r *Planner) suspension(ctx context.Context, p *pass, obsolete []resourcesv1alpha1.ObjectReference,
	decide func(prune.Brake, prune.Departure) *prune.Suspension,
) (*prune.Suspension, error) {
	removesSet := p.mr.DeletionTimestamp != nil || !r.Class.Responsible(p.mr)
	if r.Own.DeletionLimit == nil || len(obsolete) == 0 || prune.KeepAll(p.mr, removesSet, p.set.Content.Faults) != "" {
		return nil, nil
	}
	checksum := p.set.Content.Checksum
	if removesSet { // the sources are not read
		checksum = ptr.Deref(p.mr.Status.SecretsDataChecksum, string(p.mr.UID))
	}
	brake := prune.Brake{Limit: r.Own.DeletionLimit, GarbageCollector: r.GarbageCollector}
	departure := prune.Departure{
		Before: p.before, Obsolete: obsolete, Unwritten: p.set.Unwritten(), Suspended: isSuspended(p.mr.Status.Conditions),
		Checksum: checksum, RemovesSet: removesSet, Confirmation: p.mr.Annotations[resourcesv1alpha1.ConfirmDeletion],
	}
	if brake.IsConfirmed(departure) {
		return nil, nil
	}
	var err error
	departure.Unused, departure.Uncounted, err = r.pruner(p).UnusedDefinitions(ctx, obsolete, p.mr.DeletionTimestamp != nil)
	if err != nil {
		return nil, fmt.Errorf("%w; the controller tries it again, and deletes nothing meanwhile, unless you confirm the deletion with the "+
			"annotation %s: %q", err, resourcesv1alpha1.ConfirmDeletion, brake.Confirmation(departure))
	}
	return decide(brake, departure), nil
}

// removalSuspension returns why the deletion of all objects of a set is suspended. A set that another controller takes over is treated like
// a set whose sources have become empty.
func (r *Planner) removalSuspension(ctx context.Context, p *pass) (*prune.Suspension, error) {
	if p.mr.DeletionTimestamp != nil {
		return r.suspension(ctx, p, p.before, prune.Brake.Removal)
	}
	return r.suspension(ctx, p, p.before, prune.Brake.Change)
}

// suspendRemoval reports that the controller does not delete the objects of a set. The controller checks this suspension again in each
// SyncPeriod: a CustomResourceDefinition stays because objects of its kind exist, and other clients may delete these objects.
func (r *Reconciler) suspendRemoval(ctx context.Context, p *pass, s *prune.Suspension) (ctrl.Result, error) {
	judgement := suspended(applied(corev1beta1.ConditionTrue, "", resourcesv1alpha1.MessageApplySucceeded), s, false)
	r.Events.failed(p, nil, judgement.Reason, judgement.Message)
	p.set.Invalidate() // so that a set that returns to this class is compared
	return ctrl.Result{RequeueAfter: r.Config.SyncPeriod.Duration}, r.report(ctx, p, judgement)
}

// suspended adds to a judgement, the condition about an apply, that pruning is suspended. keepsCode is true if documents cannot be read
// and pruning was suspended before: then the code of the former suspension stays, because nothing was decided about it.
func suspended(judgement corev1beta1.Condition, s *prune.Suspension, keepsCode bool) corev1beta1.Condition {
	if s != nil || keepsCode {
		judgement.Codes = append(slices.Clip(judgement.Codes), codeSuspended)
	}
	switch {
	case s == nil:
	case judgement.Status == corev1beta1.ConditionTrue:
		message := s.Message()
		if judgement.Message != resourcesv1alpha1.MessageApplySucceeded {
			message += ". " + judgement.Message
		}
		judgement.Status, judgement.Reason, judgement.Message = corev1beta1.ConditionFalse, resourcesv1alpha1.ConditionPruningSuspended, message
	default:
		judgement.Message += "; " + s.Message()
	}
	return judgement
}

// isSuspended reports whether the condition ResourcesApplied shows that pruning is suspended.
func isSuspended(conditions []corev1beta1.Condition) bool {
	return hasCode(conditions, codeSuspended)
}

// resumed returns the conditions without the code of a suspension that is over.
func resumed(conditions []corev1beta1.Condition) []corev1beta1.Condition {
	conditions = slices.Clone(conditions)
	for i := range conditions {
		if conditions[i].Type == resourcesv1alpha1.ResourcesApplied {
			conditions[i].Codes = slices.DeleteFunc(slices.Clone(conditions[i].Codes), func(code corev1beta1.ErrorCode) bool {
				return code == codeSuspended
			})
		}
	}
	return conditions
}

// takeConfirmation removes the annotation that confirms a deletion when that deletion is complete: no obsolete object waits for a
// confirmation or is withheld. An annotation that stays would confirm the deletion of the same objects again, if the objects return and
// the sources have the same content later.
func (r *Reconciler) takeConfirmation(ctx context.Context, p *pass) error {
	if r.Own.DeletionLimit == nil || !prune.IsSpent(p.mr.Annotations[resourcesv1alpha1.ConfirmDeletion], p.set.Content.Checksum) ||
		len(p.set.Content.Faults) > 0 || p.set.Suspension != nil || !p.set.Withheld.IsEmpty() {
		return nil
	}
	next := p.mr.DeepCopy()
	delete(next.Annotations, resourcesv1alpha1.ConfirmDeletion)
	if err := r.patch(ctx, "remove annotation "+resourcesv1alpha1.ConfirmDeletion, next, conflict.MergeFrom(p.mr)); err != nil {
		return err
	}
	p.mr = next
	return nil
}
