package lifecycle

import (
	"context"
	"fmt"
	"slices"
	"time"

	"k8s.io/utils/clock"

	corev1beta1 "github.com/espalier-dev/espalier/api/core/v1beta1"
	operatorv1alpha1 "github.com/espalier-dev/espalier/api/operator/v1alpha1"
)

// maxDifference is how much the clock of this process may differ from the clock of the API server.
const maxDifference = time.Minute

const clockRemedy = " by more than a minute. No certificate, key or password is issued or renewed, and no rotation begins, until both " +
	"agree. Correct the clocks of the nodes."

// clockFault is a difference between the clock of this process and the clock of the API server: a reason and a message for a condition.
type clockFault struct{ reason, message string }

// compareClocks returns the difference between two clocks, nil if it is small enough. Before and after are times of this process,
// before the request and after the answer. Date is the time in the answer, in whole seconds.
func compareClocks(before, after, date time.Time) *clockFault {
	switch {
	case before.Sub(date.Add(time.Second)) > maxDifference:
		return &clockFault{
			operatorv1alpha1.ReasonClockAhead,
			"The clock of the operator is ahead of the clock of the API server of the runtime cluster" + clockRemedy,
		}
	case date.Sub(after) > maxDifference:
		return &clockFault{
			operatorv1alpha1.ReasonClockBehind,
			"The clock of the operator is behind the clock of the API server of the runtime cluster" + clockRemedy,
		}
	}
	return nil
}

// compareClocks asks the API server for its time. An answer without a time, which a proxy may remove, counts as no difference.
func (r *Reconciler) compareClocks(ctx context.Context) (*clockFault, error) {
	if r.ServerTime == nil {
		return nil, nil //nolint:nilnil // there is no difference that is known
	}
	before := r.Clock.Now()
	date, err := r.ServerTime(ctx)
	if err != nil {
		return nil, fmt.Errorf("read time of API server: %w", err)
	}
	if date.IsZero() {
		return nil, nil //nolint:nilnil // there is no difference that is known
	}
	return compareClocks(before, r.Clock.Now(), date), nil
}

// problem returns the message, or "" if there is no difference.
func (f *clockFault) problem() string {
	if f == nil {
		return ""
	}
	return f.message
}

// withClock returns the conditions with the condition about a difference of the clocks, or without this condition if there is none.
func withClock(conditions []corev1beta1.Condition, f *clockFault, now clock.PassiveClock) []corev1beta1.Condition {
	if f == nil {
		return slices.DeleteFunc(slices.Clone(conditions), func(c corev1beta1.Condition) bool { return c.Type == operatorv1alpha1.ClocksDiffer })
	}
	condition := corev1beta1.GetOrInitCondition(now, conditions, operatorv1alpha1.ClocksDiffer)
	condition = corev1beta1.UpdatedCondition(now, condition, corev1beta1.ConditionTrue, f.reason, f.message)
	return corev1beta1.MergeConditions(conditions, condition)
}
