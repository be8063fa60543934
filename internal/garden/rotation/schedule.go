package rotation

import (
	"cmp"
	"fmt"
	"slices"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/ptr"

	operatorv1alpha1 "github.com/espalier-dev/espalier/api/operator/v1alpha1"
)

// Schedule says at which age each credential is due for a rotation, and whether the operator or the user starts the rotation. It also
// says when a rotation is overdue.
type Schedule struct {
	// Plans are the plans of credentials. A credential without a plan is never due.
	Plans map[Credential]Plan
	// OverdueAfter is how long a rotation may stay prepared before its completion is overdue, and how long an operation that the operator
	// requests may be due before the operation is overdue. 0: without end.
	OverdueAfter time.Duration
}

// Plan describes when a credential is rotated, and whether the operator does it.
type Plan struct {
	// MaxAge is the age at which a rotation is due. 0: never.
	MaxAge time.Duration
	// Automatic is true if the operator starts the rotation. Otherwise the user does.
	Automatic bool
	// CompleteAfter is how long after its preparation the operator completes the rotation. 0: the user completes it.
	CompleteAfter time.Duration
}

// Action is an operation that is due at a time.
type Action struct {
	Operation operatorv1alpha1.Operation
	// Due is the time from which on the operation is due.
	Due time.Time
	// Automatic is true if the operator itself is to request the operation.
	Automatic bool
	// overdue is the time from which on users must know that the operation was not requested; zero: they need not.
	overdue time.Time
	// Cause is the reason for the operation, as a part of a sentence.
	Cause string
}

// String returns the time, the cause and the operation.
func (a Action) String() string {
	return fmt.Sprintf("%s: %s: request operation %s", a.Due.UTC().Format(time.RFC3339), a.Cause, a.Operation)
}

// HasAutomatic reports whether the operator requests any operation.
func (s Schedule) HasAutomatic() bool {
	for _, plan := range s.Plans {
		if plan.Automatic || plan.CompleteAfter > 0 {
			return true
		}
	}
	return false
}

// Actions returns the next operation for each credential that has one, in the order of their times. Issued are the times at which the
// present credentials were issued; a credential that does not exist yet is absent. A rotation that the operator is working on, or that
// completes by itself, needs no operation. Skipped is the name of a check that the user skips, or "". The check would show that the former
// credentials are not used any more. While it is skipped, the operator completes no rotation and no abort by itself, because a completion
// deletes the former credentials. Exceptions are the abort of the encryption key of etcd, and a rotation of this key that completes by
// itself.
func (s Schedule) Actions(
	current *operatorv1alpha1.CredentialsRotation, issued map[Credential]time.Time, singleStepEncryption bool, skipped string,
) []Action {
	var actions []Action
	for i := range rows {
		r := &rows[i]
		state, plan, since := ptr.Deref(r.in(current), operatorv1alpha1.Rotation{}), s.Plans[r.credential], issued[r.credential]
		began := cmp.Or(state.LastInitiationFinishedTime, state.LastInitiationTime, &metav1.Time{}).Time
		switch {
		case state.Phase == operatorv1alpha1.RotationPrepared && !r.completesItself(current, singleStepEncryption, skipped):
			action := s.patient(Action{
				Operation: r.complete, Due: began.Add(plan.CompleteAfter), Automatic: plan.CompleteAfter > 0,
				Cause: fmt.Sprintf("the rotation of %s is prepared since %s", r.noun, began.UTC().Format(time.RFC3339)),
			})
			if isAborting(&state) {
				action.Due = began // it would have completed by itself
			}
			if skipped != "" && (action.Automatic || isAborting(&state)) {
				action.Automatic, action.overdue = false, action.Due
				action.Cause += fmt.Sprintf(", and a user must complete it, because the annotation %s of the Garden skips the check %s",
					operatorv1alpha1.AnnotationSkippedChecks, skipped)
			}
			actions = append(actions, action)
		case r.isIdle(current) && plan.MaxAge > 0 && !since.IsZero():
			if began.After(since) {
				since = began // a rotation may take over data that are older
			}
			action := s.patient(Action{
				Operation: cmp.Or(r.whole, r.start), Due: since.Add(plan.MaxAge), Automatic: plan.Automatic,
				Cause: fmt.Sprintf("the maximum age of %s is %s", r.noun, plan.MaxAge),
			})
			if !plan.Automatic {
				action.overdue = action.Due
			}
			actions = append(actions, action)
		}
	}
	slices.SortStableFunc(actions, func(a, b Action) int { return a.Due.Compare(b.Due) })
	return actions
}

// patient returns an action that is overdue OverdueAfter after it is due.
func (s Schedule) patient(a Action) Action {
	if s.OverdueAfter > 0 {
		a.overdue = a.Due.Add(s.OverdueAfter)
	}
	return a
}

// IsOverdue reports whether the operation should have been requested before a time, so that users must know that it was not requested.
func (a Action) IsOverdue(now time.Time) bool { return !a.overdue.IsZero() && !now.Before(a.overdue) }

// completesItself reports whether a rotation that is prepared completes without an operation. Skipped is as in Actions.
func (r *row) completesItself(current *operatorv1alpha1.CredentialsRotation, singleStepEncryption bool, skipped string) bool {
	return isAborting(r.in(current)) && !r.needsProof(skipped) || r.credential == ETCDEncryptionKey &&
		(singleStepEncryption || ptr.Deref(current.ETCDEncryptionKey.AutoCompleteAfterPrepared, false))
}

// isIdle reports whether no rotation of the credential is going on.
func (r *row) isIdle(current *operatorv1alpha1.CredentialsRotation) bool {
	return starts(ptr.Deref(r.in(current), operatorv1alpha1.Rotation{}).Phase)
}

// Request returns the operation that the operator requests at a time in a maintenance window, and false if there is none. The operator
// requests only one operation at a time, and only if no rotation is in phase Preparing or Completing. It requests the start of a rotation
// only if no rotation is in phase Prepared either.
func Request(current *operatorv1alpha1.CredentialsRotation, actions []Action, now time.Time) (operatorv1alpha1.Operation, bool) {
	goingOn, prepared := false, false
	for i := range rows {
		phase := ptr.Deref(rows[i].in(current), operatorv1alpha1.Rotation{}).Phase
		goingOn = goingOn || phase == operatorv1alpha1.RotationPreparing || phase == operatorv1alpha1.RotationCompleting
		prepared = prepared || phase == operatorv1alpha1.RotationPrepared
	}
	for _, each := range actions {
		change, _ := ChangeOf(each.Operation)
		if each.Automatic && !each.Due.After(now) && !goingOn && (change.Step == Complete || !prepared) {
			return each.Operation, true
		}
	}
	return "", false
}
